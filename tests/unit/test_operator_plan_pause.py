"""How a job is stopped and resumed: the launcher first, the workers when its ranks had their time; also if the operator
restarts in between."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import plans
import pytest
from job_states import CREATED, RUNNING, batch_job, condition, launcher, own, pod, resource, workers

if TYPE_CHECKING:
    from agents.operator.actions import Plan

SUSPEND = {"spec/runPolicy/suspend": True}
SUSPENDED = condition("Suspended", reason="MPIJobSuspended", message="MPIJob suspended")
STOPPED = condition("Running", "False", "MPIJobSuspended")
GRACE_OVER = "2023-11-14T22:15:20Z"  # 20 s after NOW
AFTER = plans.NOW + 20


def going_job() -> dict[str, Any]:
    made = batch_job()
    made["metadata"]["deletionTimestamp"] = "2023-11-14T22:14:50Z"
    return made


def suspended(version: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    body = resource(version, SUSPEND if changes is None else changes, CREATED, STOPPED, SUSPENDED)
    del body["status"]["startTime"]
    return body


def deletions(found: Plan) -> list[str]:
    return plans.actions(found, "delete")


@plans.DIALECTS
def test_workers_are_kept_while_the_launcher_ends_its_ranks(version: str) -> None:
    first = plans.plan(resource(version, SUSPEND, CREATED, RUNNING), launcher(), *workers())
    assert deletions(first) == [f"delete {plans.LAUNCHERS[version]}"]
    ending = launcher(deleted=GRACE_OVER)
    second = plans.plan(suspended(version), ending, *workers(), **own(version, going_job()))
    assert deletions(second) == []
    assert second.requeue_at == AFTER


@plans.DIALECTS
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
    found = plans.plan(suspended(version), *ended, *workers(), **own(version, going_job()))
    assert plans.steps(found) == [["write"], ["delete all workers"]]


@plans.DIALECTS
def test_workers_wait_no_longer_than_the_launchers_grace(version: str) -> None:
    """A launcher on a node that does not answer is there for ever, and its ranks may not be helped."""
    body, more = suspended(version), own(version, going_job())
    assert deletions(plans.plan(body, launcher(deleted=GRACE_OVER), *workers(), now=AFTER - 1, **more)) == []
    late = plans.plan(body, launcher(deleted=GRACE_OVER), *workers(), now=AFTER, **more)
    assert deletions(late) == ["delete all workers"]


@plans.DIALECTS
def test_a_launcher_that_a_crash_left_untouched_goes_first_however_late(version: str) -> None:
    found = plans.plan(suspended(version), launcher(), *workers(), now=plans.NOW + 10_000)
    assert plans.steps(found)[0] == ["write"]  # an operator whose cache is stale is refused, and deletes nothing
    assert deletions(found) == [f"delete {plans.LAUNCHERS[version]}"]


@pytest.mark.parametrize(("grace", "until"), [(None, 60), (5, 35), (600, 630)])
@pytest.mark.parametrize("is_gone", [False, True])
def test_pods_that_a_batch_job_leaves_behind_are_waited_for_within_limits(
    grace: int | None, until: int, is_gone: bool
) -> None:
    """Until the garbage collector deletes them nobody knows by when they end."""
    named = {"spec/mpiReplicaSpecs/Launcher/template/spec/terminationGracePeriodSeconds": grace}
    body = suspended("v2beta1", SUSPEND | ({} if grace is None else named))
    body["status"]["conditions"][-1]["lastTransitionTime"] = "2023-11-14T22:14:50Z"
    since = plans.NOW - 10
    job = None if is_gone else going_job()
    early = plans.plan(body, launcher(), *workers(), now=since + until - 1, launcher_job=job)
    assert deletions(early) == []
    assert early.requeue_at == since + until
    assert deletions(plans.plan(body, launcher(), *workers(), now=since + until, launcher_job=job)) == [
        "delete all workers"
    ]


@plans.DIALECTS
@pytest.mark.parametrize(
    "left",
    [[*workers()], [launcher(deleted=GRACE_OVER)], [launcher(), *workers()], [pod("pi-worker-1", "Failed", code=1)]],
    ids=["workers", "a launcher that ends", "all", "one that failed"],
)
def test_a_job_that_is_resumed_too_early_is_stopped_to_the_end(version: str, left: list[Any]) -> None:
    found = plans.plan(suspended(version, {}), *left)
    assert plans.actions(found, "create") == []
    assert found.steps == () or plans.conditions(found)["Suspended"][0] == "True"
    resumed = plans.plan(suspended(version, {}))
    assert plans.conditions(resumed)["Suspended"][0] == "False"
    assert plans.steps(resumed)[-1] == [f"create {plans.LAUNCHERS[version]}"]


@plans.DIALECTS
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
    early = plans.plan(body, left, now=plans.NOW - 1, **more)
    assert early.requeue_at == plans.NOW
    assert early.steps == () or kind not in plans.conditions(early)
    found = plans.plan(body, left, **more)
    assert plans.conditions(found)[kind][:2] == stated_as
    assert plans.events(found) == [("Warning", stated_as[1], plans.conditions(found)[kind][2])]
    assert f"delete pod {left['metadata']['name']} --force" in plans.conditions(found)[kind][2]
    body["status"] = plans.status(found)
    body["metadata"]["managedFields"] = plans.OURS
    gone = plans.plan(body, now=plans.NOW + 30)
    assert kind not in plans.conditions(gone) or plans.conditions(gone)[kind][1] != stated_as[1]


@plans.DIALECTS
def test_a_launcher_that_exits_with_0_when_it_is_stopped_is_no_success_though_the_job_is_resumed(version: str) -> None:
    stopped = launcher("Succeeded", code=0, deleted=GRACE_OVER)
    job = going_job()
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    for changes in (SUSPEND, {}):
        found = plans.plan(suspended(version, changes), stopped, *workers(), **own(version, job))
        assert "Succeeded" not in plans.conditions(found)


@plans.DIALECTS
def test_what_is_resumed_runs_its_resume_specs_and_only_then(version: str) -> None:
    specs = [{"type": "launcher", "command": ["resume"]}, {"type": "worker", "command": ["serve"]}]
    mode = {"spec/runMode": {"pause": {"enabled": False, "resumeSpecs": specs}}}
    fresh = resource(version, mode)
    assert commands(plans.plan(fresh)) == {"launcher": None, "worker": None}
    resumed = suspended(version, mode)
    first = plans.plan(resumed)
    assert commands(first) == {"launcher": ["resume"], "worker": ["serve"]}
    resumed["status"] = plans.status(first)
    resumed["metadata"]["managedFields"] = plans.OURS
    again = plans.plan(resumed, pod("pi-worker-0"))  # its second worker, and its launcher, were lost
    assert commands(again) == {"launcher": ["resume"], "worker": ["serve"]}


@plans.DIALECTS
def test_resuming_reaches_every_worker(version: str) -> None:
    """None of an old template is kept: the old workers are gone before new ones are created."""
    mode = {"spec/runMode": {"pause": {"resumeSpecs": [{"type": "worker", "command": ["serve"]}]}}}
    body = suspended(version, mode)
    old = workers(2, annotations={"mpi-agents/template": "of-before"})
    assert deletions(plans.plan(copy.deepcopy(body), *old)) == ["delete all workers"]


@pytest.mark.parametrize(("grace", "delay"), [(None, None), (1, "1"), (20, "9"), (600, "299")])
def test_ranks_have_half_of_the_grace_period_that_a_job_asks_for(grace: int | None, delay: str | None) -> None:
    """Open MPI 4.1 waits before SIGTERM as long as before SIGKILL."""
    named = {"spec/mpiReplicaSpecs/Launcher/template/spec/terminationGracePeriodSeconds": grace}
    found = plans.plan(resource("v1", {} if grace is None else named))
    main = plans.main_container(plans.created(found)["Pod pi-launcher"])
    set_ = {one["name"]: one.get("value") for one in main["env"]}
    assert set_.get("OMPI_MCA_odls_base_sigkill_timeout") == delay


def commands(found: Plan) -> dict[str, list[str] | None]:
    """What the main containers of the pods that are made run, as far as it is none of ours."""
    made: dict[str, list[str] | None] = {}
    for name, body in plans.created(found).items():
        if name.startswith(("Pod ", "Job ")):
            command = plans.main_container(body).get("command")
            role = "launcher" if "launcher" in name else "worker"
            made[role] = None if command and command[0] == "/bin/sh" else command
    return made
