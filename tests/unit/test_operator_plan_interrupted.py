"""Plan: a launcher that ends while its pod is deleted, drained, evicted or preempted says nothing about its program."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, batch_job, launcher, resource, workers

Object = dict[str, Any]

POLICY = "spec/mpiReplicaSpecs/Launcher/restartPolicy"
BEGAN, BEFORE, SAME, AFTER = (f"2023-11-14T22:14:{second}Z" for second in ("30", "29", "30", "31"))
DELETED: dict[str, Any] = {"deleted": "2023-11-14T22:14:40Z", "grace": 10}  # since BEGAN
COMPLETE = {"type": "Complete", "status": "True", "lastTransitionTime": "2023-11-14T22:14:45Z"}
LIMIT = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}


def ended(phase: str = "Succeeded", code: int = 0, at: str = AFTER, **more: Any) -> Object:
    """A launcher that ended then. `grace`, `target` (DisruptionTarget since then), `bound`, `seen`: of its pod."""
    pod = launcher(phase, code=code, finished=at, **more)
    if "grace" in more:
        pod["metadata"]["deletionGracePeriodSeconds"] = more["grace"]
    if "target" in more:
        about = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        pod["status"]["conditions"].append(about | ({"lastTransitionTime": more["target"]} if more["target"] else {}))
    if "bound" in more:
        about = {"type": "PodScheduled", "status": "True", "lastTransitionTime": more["bound"]}
        pod["status"]["conditions"].append(about)
        pod["status"]["startTime"] = more["seen"]
    return pod


def body_of(version: str, changes: Object | None = None) -> Object:
    return resource(version, changes, READY, CREATED, RUNNING, replicaStatuses=plans.ALL_ACTIVE)


@pytest.mark.parametrize(
    ("more", "is_interrupted"),
    [
        ({"at": BEFORE, **DELETED}, False),
        ({"at": SAME, **DELETED}, True),
        ({"at": AFTER, **DELETED}, True),
        ({"at": AFTER, **DELETED, "grace": 0}, False),
        ({"at": AFTER, "deleted": "2023-11-14T22:15:00Z"}, True),  # Kubernetes' 30 s
        ({"at": BEFORE, "deleted": "2023-11-14T22:15:00Z"}, False),
        ({"at": AFTER, "deleted": BEGAN, "grace": 3600}, True),
        ({"at": "", **DELETED}, True),
        ({"at": BEFORE, "target": BEGAN}, False),
        ({"at": SAME, "target": BEGAN}, True),
        ({"at": AFTER, "target": BEGAN}, True),
        ({"at": AFTER, "target": ""}, True),
        ({"at": BEFORE, "target": AFTER, **DELETED}, False),
        ({"at": AFTER, "target": BEFORE, "deleted": "2023-11-14T22:16:00Z", "grace": 10}, True),
        ({"at": BEFORE, **DELETED, "bound": SAME, "seen": SAME}, False),
        ({"at": BEFORE, **DELETED, "bound": SAME, "seen": BEFORE}, True),  # the node's clock is a second behind
        ({"at": BEFORE, **DELETED, "bound": SAME, "seen": AFTER}, False),
        ({"at": AFTER}, False),
    ],
)
@pytest.mark.parametrize("phase", ["Succeeded", "Running"])
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_an_exit_with_0(version: str, phase: str, more: Object, is_interrupted: bool) -> None:
    found = plans.plan(body_of(version), ended(phase, **more), *workers())
    if not is_interrupted:
        assert plans.conditions(found)["Succeeded"][0] == "True"
        return
    assert "Succeeded" not in str(found.steps)
    assert plans.actions(found, "delete all", "delete Pod pi-worker") == []
    if version == "v1" and "deleted" in more:
        assert "launcher" not in str(plans.steps(found))
        assert plans.steps(plans.plan(body_of(version), *workers()))[-1] == ["create Pod pi-launcher"]
    else:
        kind = {"v1": "Pod", "v2beta1": "Job"}[version]
        assert plans.steps(found) == [["write"], ["tell MPIJobRestarting", f"delete {kind} pi-launcher"]]
        assert "failed" not in plans.status(found)["replicaStatuses"]["Launcher"]


@pytest.mark.parametrize("reason", ["Evicted", "Terminated", "NodeShutdown", "Shutdown", "Preempting", "NodeLost"])
@pytest.mark.parametrize("code", [0, 1, 143])
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
def test_what_the_kubelet_ends_is_no_end_of_the_job(policy: str, code: int, reason: str) -> None:
    """Also where the program saves on SIGTERM, and exits with 0; no limit counts it."""
    body = body_of("v1", {POLICY: policy, "spec/runPolicy/backoffLimit": 1})
    found = plans.plan(body, ended("Failed", code, reason=reason), *workers())
    assert plans.steps(found) == [["write"], ["tell MPIJobRestarting", "delete Pod pi-launcher"]]
    assert plans.status(found)["launcherInterruptions"] == 1
    body["status"] = plans.status(found)
    again = plans.plan(body, ended("Failed", code, reason=reason), *workers(), now=plans.NOW + 1)
    assert plans.steps(again) == [["delete Pod pi-launcher"]]
    waits = plans.plan(body, *workers(), now=plans.NOW + 1)
    assert plans.actions(waits, "create") == []
    assert waits.requeue_at == plans.NOW + 10
    assert plans.actions(plans.plan(body, *workers(), now=plans.NOW + 10), "create") == ["create Pod pi-launcher"]
    runs = plans.plan(body, launcher(uid="another"), *workers(), now=plans.NOW + 20)
    assert "Failed" not in plans.conditions(runs)
    assert plans.status(runs)["launcherInterruptions"] == 1


def test_a_failure_after_an_interruption_is_the_first_one_that_counts() -> None:
    changes = {POLICY: "ExitCode", "spec/runPolicy/backoffLimit": 2}
    body = body_of("v1", changes)
    body["status"] |= {"replicaStatuses": {"Launcher": {"failed": 5}, "Worker": {}}, "launcherInterruptions": 5}
    first = plans.plan(body, ended("Failed", 137), *workers())
    assert plans.actions(first, "delete") == ["delete Pod pi-launcher"]
    body["status"] = plans.status(first)
    second = plans.plan(body, ended("Failed", 137, uid="another"), *workers())
    assert plans.conditions(second)["Failed"][1] == "BackoffLimitExceeded"


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_pods_own_deadline_is_no_success(version: str) -> None:
    """The kubelet ends it, whatever the program makes of that."""
    failed = ended("Failed", 0, reason="DeadlineExceeded", message="Pod was active too long")
    found = plans.plan(body_of(version), failed, *workers())
    assert "Succeeded" not in str(found.steps)
    if version == "v1":
        assert plans.conditions(found)["Failed"][1] == "DeadlineExceeded"


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_worker_that_was_evicted_and_exits_with_0_comes_back(version: str) -> None:
    evicted = workers(2, "Failed", code=0, reason="Evicted")[1]
    found = plans.plan(body_of(version), launcher(), workers()[0], evicted)
    assert plans.actions(found, "delete") == ["delete Pod pi-worker-1"]


# v2beta1: the batch Job takes an exit with 0 for its completion, and counts others -----------------------------------


def interrupted() -> tuple[Object, Object]:
    """A job whose launcher was interrupted and exited with 0, and the status that reports it."""
    body = body_of("v2beta1")
    first = plans.plan(body, ended(**DELETED), *workers())
    body["status"] = plans.status(first)
    return body, body["status"]


@pytest.mark.parametrize("pods", [[], [ended(**DELETED)]], ids=["its pod is gone", "its pod is there"])
@pytest.mark.parametrize("is_going", [False, True])
def test_a_job_that_is_complete_by_an_interrupted_pod_is_made_anew(pods: list[Object], is_going: bool) -> None:
    body, before = interrupted()
    job = batch_job(COMPLETE)
    if is_going:
        job["metadata"]["deletionTimestamp"] = AFTER
    found = plans.plan(body, *pods, *workers(), launcher_job=job, now=plans.NOW + 1)
    assert plans.actions(found, "delete", "create") == ([] if is_going else ["delete Job pi-launcher"])
    assert plans.events(found) == []
    after = plans.plan(body, *workers(), now=plans.NOW + 10)
    assert plans.actions(after, "create") == ["create Job pi-launcher"]
    again = batch_job()
    again["metadata"]["uid"] = "another"
    runs = plans.plan(
        {**body, "status": before}, launcher(uid="new"), *workers(), launcher_job=again, now=plans.NOW + 20
    )
    assert plans.conditions(runs)["Running"][0] == "True"
    body["status"] = plans.status(runs)
    good = plans.plan(body, ended(uid="new"), *workers(), launcher_job=again, now=plans.NOW + 30)
    assert plans.conditions(good)["Succeeded"][0] == "True"


def test_a_job_that_was_complete_before_its_pod_was_deleted_is_complete() -> None:
    gone = ended(at=BEFORE, **DELETED)
    found = plans.plan(body_of("v2beta1"), gone, *workers(), launcher_job=batch_job(COMPLETE))
    assert plans.conditions(found)["Succeeded"][0] == "True"


@pytest.mark.parametrize("is_seen", [True, False], ids=["its pod is there", "its pod is gone"])
@pytest.mark.parametrize(("at", "is_made_anew"), [(AFTER, True), (BEFORE, False)])
def test_a_job_whose_last_try_was_interrupted_is_made_anew(is_seen: bool, at: str, is_made_anew: bool) -> None:
    body = body_of("v2beta1")
    failed = ended("Failed", 143, at, **DELETED)
    between = plans.plan(body, failed, *workers(), launcher_job=batch_job(failed=1))
    reason = "LauncherInterrupted" if is_made_anew else "LauncherFailed"
    assert plans.conditions(between)["LauncherWaiting"][1] == reason
    body["status"] = plans.status(between)
    pods = [failed] if is_seen else []
    found = plans.plan(body, *pods, *workers(), launcher_job=batch_job(LIMIT, failed=1), now=plans.NOW + 1)
    if is_made_anew:
        assert plans.steps(found) == [["write"], ["tell MPIJobRestarting", "delete Job pi-launcher"]]
    else:
        assert plans.conditions(found)["Failed"][1].startswith("BackoffLimitExceeded")


# What the operator itself stops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("code", [0, 143])
def test_what_a_suspension_ends_is_no_success(version: str, code: int) -> None:
    body = body_of(version, {"spec/runPolicy/suspend": True})
    phase = "Failed" if code else "Succeeded"
    found = plans.plan(body, ended(phase, code, **DELETED), *workers())
    assert plans.conditions(found)["Suspended"][0] == "True"
    assert "Succeeded" not in plans.conditions(found)
