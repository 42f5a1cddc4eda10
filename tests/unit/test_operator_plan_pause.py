"""How a job is stopped and goes on: the launcher first, the workers when its ranks had their time, all of it twice over
if the operator begins anew in between."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from operator_stories import (
    CREATED,
    DIALECTS,
    LAUNCHERS,
    NOW,
    OURS,
    RUNNING,
    batch_job,
    condition,
    created,
    events,
    launcher,
    main_container,
    own,
    planned,
    pod,
    resource,
    stated,
    told,
    told_of,
    workers,
    written,
)

if TYPE_CHECKING:
    from agents.operator.actions import Plan

SUSPEND = {"spec/runPolicy/suspend": True}
SUSPENDED = condition("Suspended", reason="MPIJobSuspended", message="MPIJob suspended")
STOPPED = condition("Running", "False", "MPIJobSuspended")
GRACE_OVER = "2023-11-14T22:15:20Z"  # 20 s after NOW
AFTER = NOW + 20


def going_job() -> dict[str, Any]:
    made = batch_job()
    made["metadata"]["deletionTimestamp"] = "2023-11-14T22:14:50Z"
    return made


def suspended(version: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    body = resource(version, SUSPEND if changes is None else changes, CREATED, STOPPED, SUSPENDED)
    del body["status"]["startTime"]
    return body


def deletions(found: Plan) -> list[str]:
    return told_of(found, "delete")


@DIALECTS
def test_workers_are_kept_while_the_launcher_ends_its_ranks(version: str) -> None:
    first = planned(resource(version, SUSPEND, CREATED, RUNNING), launcher(), *workers(), **own(version))
    assert deletions(first) == [f"delete {LAUNCHERS[version]}"]
    ending = launcher(deleted=GRACE_OVER)
    second = planned(suspended(version), ending, *workers(), **own(version, going_job()))
    assert deletions(second) == []
    assert second.requeue_at == AFTER


@DIALECTS
@pytest.mark.parametrize(
    "ended",
    [
        [],
        [launcher("Succeeded", code=0, deleted=GRACE_OVER)],
        [launcher(code=0, deleted=GRACE_OVER, beside=[{"name": "proxy", "ready": True, "state": {"running": {}}}])],
        [launcher("Pending", deleted=GRACE_OVER)],
    ],
    ids=["gone", "ended", "a sidecar lingers", "never ran"],
)
def test_workers_go_when_no_program_of_the_launcher_runs(version: str, ended: list[Any]) -> None:
    found = planned(suspended(version), *ended, *workers(), **own(version, going_job()))
    assert told(found) == [["write"], ["delete all workers"]]


@DIALECTS
def test_workers_wait_no_longer_than_the_launchers_grace(version: str) -> None:
    """A launcher on a node that does not answer is there for ever, and its ranks may not be helped."""
    body, more = suspended(version), own(version, going_job())
    assert deletions(planned(body, launcher(deleted=GRACE_OVER), *workers(), now=AFTER - 1, **more)) == []
    late = planned(body, launcher(deleted=GRACE_OVER), *workers(), now=AFTER, **more)
    assert deletions(late) == ["delete all workers"]


@DIALECTS
def test_a_launcher_that_a_crash_left_untouched_goes_first_however_late(version: str) -> None:
    found = planned(suspended(version), launcher(), *workers(), now=NOW + 10_000, **own(version))
    assert deletions(found) == [f"delete {LAUNCHERS[version]}"]


@pytest.mark.parametrize(("grace", "until"), [(None, 60), (5, 35), (600, 630)])
@pytest.mark.parametrize("is_gone", [False, True])
def test_pods_that_a_batch_job_leaves_behind_are_waited_for_within_limits(
    grace: int | None, until: int, is_gone: bool
) -> None:
    """Until the garbage collector deletes them nobody knows by when they end."""
    named = {"spec/mpiReplicaSpecs/Launcher/template/spec/terminationGracePeriodSeconds": grace}
    body = suspended("v2beta1", SUSPEND | ({} if grace is None else named))
    body["status"]["conditions"][-1]["lastTransitionTime"] = "2023-11-14T22:14:50Z"
    since = NOW - 10
    job = None if is_gone else going_job()
    early = planned(body, launcher(), *workers(), now=since + until - 1, launcher_job=job)
    assert deletions(early) == []
    assert early.requeue_at == since + until
    assert deletions(planned(body, launcher(), *workers(), now=since + until, launcher_job=job)) == [
        "delete all workers"
    ]


@DIALECTS
def test_pods_are_deleted_behind_a_write_alone(version: str) -> None:
    """An operator that knows no better than that the job is suspended is refused, and deletes nothing."""
    for pods in ([*workers()], [launcher(), *workers()]):
        found = planned(suspended(version), *pods, now=NOW, **own(version))
        assert told(found)[0] == ["write"]


@DIALECTS
@pytest.mark.parametrize(
    "left",
    [[*workers()], [launcher(deleted=GRACE_OVER)], [launcher(), *workers()], [pod("pi-worker-1", "Failed", code=1)]],
    ids=["workers", "a launcher that ends", "all", "one that failed"],
)
def test_a_job_that_is_resumed_too_early_is_stopped_to_the_end(version: str, left: list[Any]) -> None:
    more = own(version) if any(one["metadata"]["name"] == "pi-launcher" for one in left) else {}
    found = planned(suspended(version, {}), *left, **more)
    assert told_of(found, "create") == []
    assert found.steps == () or stated(found)["Suspended"][0] == "True"
    resumed = planned(suspended(version, {}))
    assert stated(resumed)["Suspended"][0] == "False"
    assert told(resumed)[-1] == [f"create {LAUNCHERS[version]}"]


@DIALECTS
@pytest.mark.parametrize("changes", [SUSPEND, {}], ids=["suspended", "resumed"])
@pytest.mark.parametrize(
    ("left", "kind", "stated_as"),
    [
        (pod("pi-worker-1", deleted="2023-11-14T22:14:00Z"), "WorkersReady", ("False", "WorkerStuck")),
        (launcher(deleted="2023-11-14T22:14:00Z"), "LauncherWaiting", ("True", "LauncherStuck")),
    ],
    ids=["worker", "launcher"],
)
def test_a_pod_whose_node_does_not_answer_is_named_as_nothing_starts_before_it_has_ended(
    version: str, changes: Any, left: Any, kind: str, stated_as: tuple[str, str]
) -> None:
    more = own(version, going_job()) if kind == "LauncherWaiting" else {}
    body = suspended(version, changes)
    early = planned(body, left, now=NOW - 1, **more)
    assert early.requeue_at == NOW
    assert early.steps == () or kind not in stated(early)
    found = planned(body, left, **more)
    assert stated(found)[kind][:2] == stated_as
    assert events(found) == [("Warning", stated_as[1], stated(found)[kind][2])]
    assert f"delete pod {left['metadata']['name']} --force" in stated(found)[kind][2]
    body["status"] = written(found)
    body["metadata"]["managedFields"] = OURS
    gone = planned(body, now=NOW + 30)
    assert kind not in stated(gone) or stated(gone)[kind][1] != stated_as[1]


@DIALECTS
def test_a_launcher_that_exits_with_0_when_it_is_stopped_is_no_success_though_the_job_is_resumed(version: str) -> None:
    stopped = launcher("Succeeded", code=0, deleted=GRACE_OVER)
    job = going_job()
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    for changes in (SUSPEND, {}):
        found = planned(suspended(version, changes), stopped, *workers(), **own(version, job))
        assert "Succeeded" not in stated(found)


@DIALECTS
def test_what_is_resumed_runs_its_resume_specs_and_only_then(version: str) -> None:
    specs = [{"type": "launcher", "command": ["resume"]}, {"type": "worker", "command": ["serve"]}]
    mode = {"spec/runMode": {"pause": {"enabled": False, "resumeSpecs": specs}}}
    fresh = resource(version, mode)
    assert commands(planned(fresh)) == {"launcher": None, "worker": None}
    resumed = suspended(version, mode)
    first = planned(resumed)
    assert commands(first) == {"launcher": ["resume"], "worker": ["serve"]}
    resumed["status"] = written(first)
    resumed["metadata"]["managedFields"] = OURS
    again = planned(resumed, pod("pi-worker-0"))  # its second worker, and its launcher, were lost
    assert commands(again) == {"launcher": ["resume"], "worker": ["serve"]}


@DIALECTS
def test_resuming_reaches_every_worker(version: str) -> None:
    """None of a former template is kept: those of before are gone when the others are made."""
    mode = {"spec/runMode": {"pause": {"resumeSpecs": [{"type": "worker", "command": ["serve"]}]}}}
    body = suspended(version, mode)
    old = workers(2, annotations={"mpi-agents/template": "of-before"})
    assert deletions(planned(copy.deepcopy(body), *old)) == ["delete all workers"]


@pytest.mark.parametrize(("grace", "delay"), [(None, None), (1, "1"), (20, "9"), (600, "299")])
def test_ranks_have_half_of_the_grace_period_that_a_job_asks_for(grace: int | None, delay: str | None) -> None:
    """Open MPI 4.1 waits before SIGTERM as long as before SIGKILL."""
    named = {"spec/mpiReplicaSpecs/Launcher/template/spec/terminationGracePeriodSeconds": grace}
    found = planned(resource("v1", {} if grace is None else named))
    main = main_container(created(found)["Pod pi-launcher"])
    set_ = {one["name"]: one.get("value") for one in main["env"]}
    assert set_.get("OMPI_MCA_odls_base_sigkill_timeout") == delay


def commands(found: Plan) -> dict[str, list[str] | None]:
    """What the main containers of the pods that are made run, as far as it is none of ours."""
    made: dict[str, list[str] | None] = {}
    for name, body in created(found).items():
        if name.startswith(("Pod ", "Job ")):
            command = main_container(body).get("command")
            role = "launcher" if "launcher" in name else "worker"
            made[role] = None if command and command[0] == "/bin/sh" else command
    return made
