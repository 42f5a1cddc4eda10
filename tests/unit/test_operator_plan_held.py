"""Plan: what holds a job up, as conditions of the types that `kubectl get` shows as its State."""

from __future__ import annotations

import copy
from typing import Any

import plans
import pytest
from job_states import CREATED, OURS, READY, RUNNING, START, batch_job, condition, launcher, pod, resource, workers
from mpijobs import mpijob

from agents.job import conditions as rules

Object = dict[str, Any]

QUEUE = {"metadata/labels": {"kueue.x-k8s.io/queue-name": "team"}}
CRASHED = {
    "terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2023-11-14T22:14:00Z", "message": "no licence"}
}


def waiting(reason: str, message: str = "", name: str = "pi-worker-1", **more: Any) -> Object:
    made = pod(name, more.pop("phase", "Pending"), ready=False, **more)
    state = {"waiting": {"reason": reason, "message": message}}
    made["status"]["containerStatuses"] = [
        {
            "name": "mpi",
            "ready": False,
            "restartCount": more.get("restarts", 0),
            "state": state,
            "lastState": more.get("last", {}),
        }
    ]
    return made


def pending(reason: str, message: str) -> Object:
    made = pod("pi-worker-1", "Pending", node="")
    made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
    return made


def held(found: Any) -> dict[str, str]:
    """The message by its type, of those that are shown in the place of the last condition."""
    there = plans.conditions(found)
    return {kind: there[kind][2] for kind in rules.NOT_READY if kind in there}


AGAIN: Any = {"annotations": {"mpi-agents/restarts": "1"}}
QUOTA = 'pods "pi-worker-1" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=2, limited: pods=2'
SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'
REJECTED = {("Pod", "pi-worker-1"): QUOTA}
# The second worker, or why it is refused; what `kubectl get` shows as the job's state.
STATES: list[tuple[Object | str, str]] = [
    (waiting("ErrImagePull", "no"), "ImagePullBackOff"),
    (waiting("InvalidImageName", "no name"), "ImagePullBackOff"),
    (waiting("CreateContainerError", "no"), "CreateContainerConfigError"),
    (waiting("CrashLoopBackOff", phase="Running", restarts=2, last=CRASHED), "CrashLoopBackOff"),
    (pod("pi-worker-1", "Failed", code=3, **AGAIN), "CrashLoopBackOff"),
    (pending("Unschedulable", "0/2 nodes"), "Unschedulable"),
    (pending("SchedulingGated", "gated"), "Queued"),
    (QUOTA, "QuotaExceeded"),
    ('pods "x" is forbidden: violates PodSecurity "restricted:latest"', "FailedCreate"),
]


@pytest.mark.parametrize(
    "worker",
    [
        waiting("ContainerCreating"),
        pod("pi-worker-1", "Failed", code=3),
        pod("pi-worker-1", "Failed", reason="Evicted", **AGAIN),
        pod("pi-worker-1"),
    ],
)
def test_what_passes_or_is_seen_for_the_first_time_is_not_shown(worker: Object) -> None:
    assert held(plans.plan(resource("v1", None, CREATED), pod("pi-worker-0"), worker)) == {}


def test_what_is_shown_says_of_which_pod_and_why() -> None:
    body, first = resource("v1", None, CREATED), pod("pi-worker-0")
    assert held(plans.plan(body, first, rejected=REJECTED)) == {"QuotaExceeded": f"Pod pi-worker-1: {QUOTA}"}
    found = plans.plan(body, first, pending("Unschedulable", "0/2 nodes"))
    assert held(found) == {"Unschedulable": "pi-worker-1 unschedulable: 0/2 nodes"}


def test_a_launcher_that_gives_up_waiting_is_not_the_cause() -> None:
    gives_up = waiting("CrashLoopBackOff", name="pi-launcher", restarts=3, last=CRASHED)
    found = plans.plan(resource("v1", None, CREATED), gives_up, pod("pi-worker-0"), waiting("ErrImagePull", "no"))
    assert list(held(found)) == ["ImagePullBackOff", "CrashLoopBackOff"]  # the first is shown


def test_many_workers_are_one_message() -> None:
    body = resource("v1", {plans.WORKER + "/replicas": 3}, CREATED)
    pods = [waiting("ErrImagePull", "no", f"pi-worker-{index}") for index in range(3)]
    assert held(plans.plan(body, *pods)) == {
        "ImagePullBackOff": "pi-worker-0 container mpi can't get its image (ErrImagePull): no (and 2 more)"
    }


def test_what_differs_is_all_there_and_the_definition_says_which_is_shown() -> None:
    body = resource("v1", {plans.WORKER + "/replicas": 2}, CREATED)
    found = plans.plan(body, waiting("ErrImagePull", "no", "pi-worker-0"), pending("Unschedulable", "full"))
    assert list(held(found)) == ["ImagePullBackOff", "Unschedulable"]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_that_crashes_in_place_is_shown_although_the_job_runs(version: str) -> None:
    restarts = {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "OnFailure"}
    body = resource(version, restarts, READY, CREATED, RUNNING)
    loops = waiting("CrashLoopBackOff", name="pi-launcher", phase="Running", restarts=3, last=CRASHED)
    found = plans.plan(body, loops, *workers())
    assert held(found) == {"CrashLoopBackOff": "pi-launcher container mpi crashes again and again (exit 3): no licence"}
    body = {**body, "status": plans.status(found)}
    later = plans.NOW + 60
    assert held(plans.plan(body, launcher(restarts=3, last=CRASHED), *workers(), now=later)) == {}


@pytest.mark.parametrize(("failed", "shown"), [(1, []), (2, ["CrashLoopBackOff"])])
def test_a_launcher_whose_job_tries_again_and_again(failed: int, shown: list[str]) -> None:
    body = resource("v2beta1", None, READY, CREATED, RUNNING)
    last = pod("pi-launcher-x", "Failed", code=3)
    found = plans.plan(body, last, *workers(), launcher_job=batch_job(failed=failed))
    assert list(held(found)) == shown


def test_a_running_job_that_lost_a_worker_still_runs() -> None:
    body = resource("v1", None, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher(), pod("pi-worker-0"), waiting("ErrImagePull", "no"))
    assert held(found) == {}


def test_a_refused_replacement_does_not_hold_up_a_running_job() -> None:
    body = resource("v1", None, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher(), pod("pi-worker-0"), rejected=REJECTED)
    assert held(found) == {}
    assert "CreationRefused" in plans.conditions(found)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"spec/runPolicy/suspend": True}, {}),
        ({"spec/runPolicy/suspend": True, **QUEUE}, {"Queued": "suspended until Kueue admits it, by queue team"}),
        ({"spec/runMode": {"pause": {"enabled": True}}}, {}),
    ],
)
def test_a_suspended_job(changes: Object, shown: dict[str, str]) -> None:
    body = resource("v2beta1", changes, condition("ImagePullBackOff"), CREATED)
    found = plans.plan(body)
    assert held(found) == shown
    assert plans.status(found)["conditions"][-1]["type"] == "Suspended"


def test_what_blocks_a_job_is_its_state() -> None:
    body = resource("v1", {plans.WORKER + "/replicas": -1}, condition("ImagePullBackOff"), CREATED)
    assert held(plans.plan(body)) == {}
    body = resource("v1", None, condition("ImagePullBackOff"), CREATED)
    conflict = frozenset({("ConfigMap", "pi-config")})
    assert held(plans.plan(body, waiting("ErrImagePull"), name_conflicts=conflict)) == {}


def test_an_ended_job_is_held_up_by_nothing() -> None:
    body = resource("v1", None, condition("ImagePullBackOff"), condition("FailedCreate"), CREATED, RUNNING)
    assert held(plans.plan(body, launcher("Succeeded", code=0), *workers())) == {}
    assert held(plans.plan(body, launcher("Failed", code=1), *workers())) == {}


# The name of the second worker, its main container, what suspends the job.
WORKERS: dict[str, tuple[str, str, Object]] = {
    "v1": ("pi-worker-1", "mpi", {"spec/runPolicy/suspend": True}),
    "v2beta1": ("pi-worker-1", "mpi", {"spec/runPolicy/suspend": True}),
    "t9k": ("pi-worker-1", "mpi-worker", {"spec/runMode": {"pause": {"enabled": True}}}),
    "virtual": ("vc-node-1", "mpi", {"spec/suspend": True}),
}


def started(version: str, changes: Object | None = None) -> Object:
    made = mpijob(version, {"spec/transport": "exec", **(changes or {})})
    made["metadata"] |= {"resourceVersion": "7", "managedFields": OURS}
    return made | {"status": {"conditions": [CREATED], "startTime": START, "lastReconcileTime": START}}


def shown_state(version: str, status: Object) -> str:
    """The column: State, of T9k's Reason or else Phase. The definitions' tests compare their paths."""
    by_type = {one["type"]: one for one in status["conditions"]}
    if version == "virtual":
        return str(by_type["Ready"]["reason"])
    first = next((str(kind) for kind in rules.NOT_READY if kind in by_type), "")
    return first or str(status["phase"] if version == "t9k" else status["conditions"][-1]["type"])


@pytest.mark.parametrize("version", WORKERS)
@pytest.mark.parametrize(("worker", "state"), STATES)
def test_the_state_of_every_kind_of_job(version: str, worker: Object | str, state: str) -> None:
    name, container, _ = WORKERS[version]
    first = pod(f"{name[:-1]}0", container=container)
    if isinstance(worker, str):
        found = plans.plan(started(version), first, rejected={("Pod", name): worker})
    else:
        there = copy.deepcopy(worker)
        there["metadata"]["name"] = name
        for one in (*there["spec"]["containers"], *there["status"].get("containerStatuses", ())):
            one["name"] = container
        found = plans.plan(started(version), first, there)
    assert shown_state(version, plans.status(found)) == state
    if version in plans.LAUNCHERS:  # kubeflow's dialects
        assert list(held(found)) == [state]
        assert plans.status(found)["conditions"][-1]["type"] == "Created"  # users' tools read it there


@pytest.mark.parametrize("version", WORKERS)
@pytest.mark.parametrize(("changes", "state"), [({}, "Suspended"), (QUEUE, "Queued")])
def test_the_state_of_every_kind_of_job_that_is_suspended(version: str, changes: Object, state: str) -> None:
    found = plans.plan(started(version, {**WORKERS[version][2], **changes}))
    assert shown_state(version, plans.status(found)) == (
        "Paused" if (version, state) == ("t9k", "Suspended") else state
    )
