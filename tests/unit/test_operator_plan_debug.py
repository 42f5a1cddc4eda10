"""Debug mode: the launcher waits for its user, and is the one that it was made as until the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plans
import pytest
from job_states import CREATED, RUNNING, batch_job, condition, launcher, resource, running, workers

from agents.job.run_mode import WAIT

if TYPE_CHECKING:
    from agents.operator.actions import Plan

DEBUG = {"spec/runMode": {"debug": {"enabled": True}}}


def debugging(status: str = "True") -> dict[str, Any]:
    return condition("Debugging", status, "DebugMode", "the launcher waits")


def launchers_command(version: str, found: Plan) -> Any:
    return plans.main_container(plans.created(found)[plans.LAUNCHERS[version]])["command"]


@plans.DIALECTS
def test_the_launcher_waits_and_the_status_says_how_to_enter_it(version: str) -> None:
    found = plans.plan(resource(version, DEBUG))
    assert launchers_command(version, found) == list(WAIT)
    name = {"v1": "pi-launcher", "v2beta1": "job/pi-launcher"}[version]
    status, reason, words = plans.conditions(found)["Debugging"]
    assert (status, reason) == ("True", "DebugMode")
    assert f"kubectl -n default exec -it {name} -c mpi -- sh" in words
    assert ("Normal", "DebugMode", words) in plans.events(found)
    assert plans.status(found)["conditions"][-1]["type"] == "Created"  # what `kubectl get` shows


@plans.DIALECTS
def test_a_debugged_job_runs_when_all_its_pods_do(version: str) -> None:
    body = resource(version, DEBUG, debugging(), CREATED)
    found = plans.plan(body, launcher(), *workers())
    assert plans.conditions(found)["Running"][0] == "True"
    assert plans.conditions(found)["Debugging"][:2] == ("True", "DebugMode")


@plans.DIALECTS
def test_a_worker_that_is_deleted_in_debug_mode_comes_back(version: str) -> None:
    body = running(version, DEBUG, debugging())
    found = plans.plan(body, launcher(), *workers(1))
    assert "create Pod pi-worker-1" in plans.steps(found)[-1]


@plans.DIALECTS
def test_debug_mode_that_is_switched_on_while_the_launcher_runs_begins_with_the_next_one(version: str) -> None:
    body = running(version, DEBUG)
    found = plans.plan(body, launcher(), *workers())
    assert plans.steps(found) == [["write"], ["tell DebugModeLater"]]
    status, _, words = plans.conditions(found)["Debugging"]
    assert status == "False"
    deleted = {"v1": "pod/pi-launcher", "v2beta1": "job/pi-launcher"}[version]
    assert words.endswith(f"kubectl -n default delete {deleted}")  # a pause is refused as long as debug mode is on
    body["status"] = plans.status(found)
    next_one = plans.plan(body, *workers())
    assert launchers_command(version, next_one) == list(WAIT)
    assert plans.conditions(next_one)["Debugging"][:2] == ("True", "DebugMode")


@plans.DIALECTS
def test_debug_mode_that_is_switched_off_lasts_as_long_as_its_launcher(version: str) -> None:
    body = running(version, None, debugging())
    found = plans.plan(body, launcher(), *workers())
    assert plans.steps(found) == [["write"], ["tell DebugModeEnds"]]
    status, reason, words = plans.conditions(found)["Debugging"]
    assert (status, reason) == ("True", "DebugModeEnds")
    assert words.endswith("/pi-launcher, or pause and resume the job")
    body["status"] = plans.status(found)
    next_one = plans.plan(body, *workers())
    assert f"create {plans.LAUNCHERS[version]}" in plans.steps(next_one)[-1]
    assert "Debugging" not in plans.conditions(next_one)


@plans.DIALECTS
@pytest.mark.parametrize("changes", [DEBUG, None], ids=["on", "off"])
def test_a_launcher_that_waits_has_not_succeeded_when_it_is_deleted(version: str, changes: Any) -> None:
    """Told to end it exits with 0."""
    body = running(version, changes, debugging())
    deleted = launcher("Succeeded", code=0, deleted="2023-11-14T22:15:30Z")
    job = batch_job({"type": "Complete", "status": "True"})
    job["metadata"]["deletionTimestamp"] = "2023-11-14T22:15:00Z"
    for left in [job, None] if version == "v2beta1" else [None]:
        found = plans.plan(body, deleted, *workers(), launcher_job=left)
        assert found.steps == () or "Succeeded" not in plans.conditions(found)
        assert found.steps == () or "Debugging" in plans.conditions(found)
    ended = plans.plan(body, launcher("Succeeded", code=0), *workers())
    assert "Succeeded" in plans.conditions(ended)  # by itself: its user has ended it


@plans.DIALECTS
def test_debug_mode_that_is_switched_on_and_off_again_leaves_no_trace(version: str) -> None:
    body = running(version, None, debugging("False"))
    assert "Debugging" not in plans.conditions(plans.plan(body, launcher(), *workers()))


@plans.DIALECTS
def test_a_job_that_ends_or_pauses_is_not_debugged_any_more(version: str) -> None:
    ended = plans.plan(
        resource(version, DEBUG, debugging(), CREATED, RUNNING), launcher("Succeeded", code=0), *workers()
    )
    assert "Debugging" not in plans.conditions(ended)
    paused = resource(version, {"spec/runPolicy/suspend": True}, debugging(), CREATED, RUNNING)
    assert "Debugging" not in plans.conditions(plans.plan(paused, launcher(), *workers()))


@plans.DIALECTS
def test_workers_of_another_debug_template_are_kept_while_the_launcher_runs(version: str) -> None:
    """As after an edit of the template: who debugs replaces them by deleting them."""
    serve = {"spec/runMode": {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["serve"]}]}}}
    body = running(version, serve)
    old = workers(2, annotations={"mpi-agents/template": "of-before"})
    found = plans.plan(body, launcher(), *old)
    assert plans.actions(found, "delete", "create") == []
    assert "WorkersOutdated" in plans.conditions(found)
