"""Debug mode: the launcher waits for its user, and is the one that it was made as until the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from operator_stories import (
    CREATED,
    DIALECTS,
    LAUNCHERS,
    RUNNING,
    batch_job,
    condition,
    created,
    events,
    launcher,
    main_container,
    own,
    planned,
    resource,
    running,
    stated,
    told,
    told_of,
    workers,
    written,
)

from agents.job.run_mode import WAIT

if TYPE_CHECKING:
    from agents.operator.actions import Plan

DEBUG = {"spec/runMode": {"debug": {"enabled": True}}}


def debugging(status: str = "True") -> dict[str, Any]:
    return condition("Debugging", status, "DebugMode", "the launcher waits")


def launchers_command(version: str, found: Plan) -> Any:
    return main_container(created(found)[LAUNCHERS[version]])["command"]


@DIALECTS
def test_the_launcher_waits_and_the_status_says_how_to_enter_it(version: str) -> None:
    found = planned(resource(version, DEBUG))
    assert launchers_command(version, found) == list(WAIT)
    name = {"v1": "pi-launcher", "v2beta1": "job/pi-launcher"}[version]
    status, reason, words = stated(found)["Debugging"]
    assert (status, reason) == ("True", "DebugMode")
    assert f"kubectl -n default exec -it {name} -c mpi -- sh" in words
    assert ("Normal", "DebugMode", words) in events(found)
    assert written(found)["conditions"][-1]["type"] == "Created"  # what `kubectl get` shows


@DIALECTS
def test_a_debugged_job_runs_when_all_its_pods_do(version: str) -> None:
    body = resource(version, DEBUG, debugging(), CREATED)
    found = planned(body, launcher(), *workers(), **own(version))
    assert stated(found)["Running"][0] == "True"
    assert stated(found)["Debugging"][:2] == ("True", "DebugMode")


@DIALECTS
def test_a_worker_that_is_deleted_in_debug_mode_comes_back(version: str) -> None:
    body = running(version, DEBUG, debugging())
    found = planned(body, launcher(), *workers(1), **own(version))
    assert "create Pod pi-worker-1" in told(found)[-1]


@DIALECTS
def test_debug_mode_that_is_switched_on_while_the_launcher_runs_begins_with_the_next_one(version: str) -> None:
    body = running(version, DEBUG)
    found = planned(body, launcher(), *workers(), **own(version))
    assert told(found) == [["write"], ["tell DebugModeLater"]]
    status, _, words = stated(found)["Debugging"]
    assert status == "False"
    deleted = {"v1": "pod/pi-launcher", "v2beta1": "job/pi-launcher"}[version]
    assert words.endswith(f"kubectl -n default delete {deleted}")  # a pause is refused as long as debug mode is on
    body["status"] = written(found)
    next_one = planned(body, *workers(), **own(version) | {"launcher_job": None})
    assert launchers_command(version, next_one) == list(WAIT)
    assert stated(next_one)["Debugging"][:2] == ("True", "DebugMode")


@DIALECTS
def test_debug_mode_that_is_switched_off_lasts_as_long_as_its_launcher(version: str) -> None:
    body = running(version, None, debugging())
    found = planned(body, launcher(), *workers(), **own(version))
    assert told(found) == [["write"], ["tell DebugModeEnds"]]
    status, reason, words = stated(found)["Debugging"]
    assert (status, reason) == ("True", "DebugModeEnds")
    assert words.endswith("/pi-launcher, or pause and resume the job")
    body["status"] = written(found)
    next_one = planned(body, *workers(), **own(version) | {"launcher_job": None})
    assert f"create {LAUNCHERS[version]}" in told(next_one)[-1]
    assert "Debugging" not in stated(next_one)


@DIALECTS
@pytest.mark.parametrize("changes", [DEBUG, None], ids=["on", "off"])
def test_a_launcher_that_waits_has_not_succeeded_when_it_is_deleted(version: str, changes: Any) -> None:
    """Told to end it exits with 0."""
    body = running(version, changes, debugging())
    deleted = launcher("Succeeded", code=0, deleted="2023-11-14T22:15:30Z")
    job = batch_job({"type": "Complete", "status": "True"})
    job["metadata"]["deletionTimestamp"] = "2023-11-14T22:15:00Z"
    for left in [job, None] if version == "v2beta1" else [None]:
        found = planned(body, deleted, *workers(), launcher_job=left)
        assert found.steps == () or "Succeeded" not in stated(found)
        assert found.steps == () or "Debugging" in stated(found)
    ended = planned(body, launcher("Succeeded", code=0), *workers(), **own(version))
    assert "Succeeded" in stated(ended)  # by itself: its user has ended it


@DIALECTS
def test_debug_mode_that_is_switched_on_and_off_again_leaves_no_trace(version: str) -> None:
    body = running(version, None, debugging("False"))
    assert "Debugging" not in stated(planned(body, launcher(), *workers(), **own(version)))


@DIALECTS
def test_a_job_that_ends_or_pauses_is_not_debugged_any_more(version: str) -> None:
    ended = planned(resource(version, DEBUG, debugging(), CREATED, RUNNING), launcher("Succeeded", code=0), *workers())
    assert "Debugging" not in stated(ended)
    paused = resource(version, {"spec/runPolicy/suspend": True}, debugging(), CREATED, RUNNING)
    assert "Debugging" not in stated(planned(paused, launcher(), *workers(), **own(version)))


@DIALECTS
def test_workers_of_another_debug_template_are_kept_while_the_launcher_runs(version: str) -> None:
    """As after an edit of the template: who debugs replaces them by deleting them."""
    serve = {"spec/runMode": {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["serve"]}]}}}
    body = running(version, serve)
    old = workers(2, annotations={"mpi-agents/template": "of-before"})
    found = planned(body, launcher(), *old, **own(version))
    assert told_of(found, "delete", "create") == []
    assert "WorkersOutdated" in stated(found)
