"""Plan: what happens to a launcher that exited, by dialect, restart policy and how it ended."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, START, batch_job, condition, launcher, resource, workers

from agents.job.status import seconds
from agents.operator.actions import Plan

POLICY = "spec/mpiReplicaSpecs/Launcher/restartPolicy"
FAILED, RETRIED, GOES_ON = "failed", "retried", "goes on"
EVICTED: dict[str, Any] = {"reason": "Evicted", "message": "The node was low on memory"}


@pytest.mark.parametrize(
    ("policy", "code", "more", "becomes"),
    [
        ("Never", 1, {}, FAILED),
        ("Never", 137, {}, FAILED),
        ("Never", 137, EVICTED, RETRIED),
        ("OnFailure", 1, EVICTED, RETRIED),
        ("OnFailure", 1, {"reason": "DeadlineExceeded"}, FAILED),
        ("Always", 1, {}, FAILED),
        ("ExitCode", 1, {}, FAILED),
        ("ExitCode", 127, {}, FAILED),
        ("ExitCode", 128, {}, RETRIED),
        ("ExitCode", 143, {}, RETRIED),
        ("ExitCode", 1, {"reason": "NodeShutdown"}, RETRIED),
    ],
)
def test_a_v1_launcher_pod_that_failed(policy: str, code: int, more: dict[str, Any], becomes: str) -> None:
    body = resource("v1", {POLICY: policy}, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher("Failed", code=code, **more), *workers())
    if becomes is RETRIED:
        assert plans.steps(found) == [["write"], ["tell MPIJobRestarting", "delete Pod pi-launcher"]]
        assert plans.conditions(found)["Restarting"][0] == "True"
        assert plans.status(found)["conditions"][-1]["type"] == "Restarting"
    else:
        assert plans.steps(found)[0] == ["write"]
        assert plans.conditions(found)["Failed"][0] == "True"
    assert plans.status(found)["replicaStatuses"]["Launcher"] == {"failed": 1}


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfnvidia.com/gpu", "TopologyAffinityError"])
def test_a_v1_launcher_that_its_node_would_not_take_comes_again(reason: str) -> None:
    """No container of it was started: its program has not failed."""
    found = plans.plan(resource("v1", None, CREATED), launcher("Failed", reason=reason), *workers())
    assert plans.steps(found) == [["write"], ["tell MPIJobRestarting", "delete Pod pi-launcher"]]


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_a_container_that_the_kubelet_starts_again_is_no_end(policy: str) -> None:
    body = resource("v1", {POLICY: policy}, READY, CREATED, RUNNING)
    assert "Failed" not in str(plans.plan(body, launcher(code=1), *workers()).steps)


@pytest.mark.parametrize(
    ("ended", "reason", "words"),
    [
        ({"code": 137, "why": "OOMKilled"}, "MPIJobFailed", "pi-launcher: container mpi exited with 137 (OOMKilled)"),
        ({"code": 3, "said": "no licence\n"}, "MPIJobFailed", "pi-launcher: container mpi exited with 3: no licence"),
        (
            {"code": 1, "reason": "DeadlineExceeded", "message": "Pod was active too long"},
            "DeadlineExceeded",
            "pi-launcher failed (DeadlineExceeded): Pod was active too long",
        ),
    ],
)
def test_the_end_says_why(ended: dict[str, Any], reason: str, words: str) -> None:
    body = resource("v1", None, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher("Failed", finished="2023-11-14T22:14:00Z", **ended), *workers())
    message = f"MPIJob default/pi has failed: {words}"
    assert plans.events(found) == [("Warning", reason, message)]
    assert plans.conditions(found)["Failed"] == ("True", reason, message)
    assert plans.conditions(found)["Running"][0] == "False"
    assert plans.status(found)["completionTime"] == "2023-11-14T22:14:00Z"


def test_the_end_names_the_worker_that_failed_first() -> None:
    body = resource("v1", None, READY, CREATED, RUNNING)
    first = workers(2, "Failed", code=137, why="OOMKilled", finished="2023-11-14T22:14:00Z")[1]
    second = workers(1, "Failed", code=1, finished="2023-11-14T22:14:02Z")[0]
    message = plans.conditions(plans.plan(body, launcher("Failed", code=1), second, first))["Failed"][2]
    assert message.endswith("the first to fail was pi-worker-1: container mpi exited with 137 (OOMKilled)")


def test_an_init_container_that_failed_is_named() -> None:
    failed = launcher("Failed")
    said = "worker-1 container mpi can't get its image (ImagePullBackOff)"
    ended = {"exitCode": 67, "reason": "Error", "message": said}
    failed["status"] |= {
        "initContainerStatuses": [{"name": "kubectl-delivery", "state": {"terminated": ended}}],
        "containerStatuses": [{"name": "mpi", "state": {"waiting": {"reason": "PodInitializing"}}}],
    }
    message = plans.conditions(plans.plan(resource("v1", None, CREATED), failed, *workers()))["Failed"][2]
    assert message.endswith(f"pi-launcher: init container kubectl-delivery exited with 67: {said}")


def test_a_retry_is_counted_once_whatever_crashes() -> None:
    body = resource("v1", {POLICY: "ExitCode"}, READY, CREATED, RUNNING)
    failed = launcher("Failed", code=137)
    first = plans.plan(body, failed, *workers())
    assert plans.conditions(first)["Restarting"] == (
        "True",
        "MPIJobRestarting",
        "MPIJob pi is restarting because 1 Launcher replica(s) failed: "
        "pi-launcher: container mpi exited with 137 (uid uid-of-pi-launcher)",
    )
    body["status"] = plans.status(first)
    again = plans.plan(body, failed, *workers(), now=plans.NOW + 1)
    assert plans.steps(again) == [["delete Pod pi-launcher"]]
    another = launcher("Failed", code=137)
    another["metadata"]["uid"] = "another"
    second = plans.plan(body, another, *workers(), now=plans.NOW + 60)
    assert plans.status(second)["replicaStatuses"]["Launcher"] == {"failed": 2}
    assert [event[1] for event in plans.events(second)] == ["MPIJobRestarting"]


@pytest.mark.parametrize(("failed", "delay_s"), [(1, 10), (2, 20), (5, 160), (6, 320), (7, 360), (100, 360)])
def test_a_new_pod_waits_longer_after_each_failure(failed: int, delay_s: int) -> None:
    restarting = condition("Restarting", reason="MPIJobRestarting", message="…", at="2023-11-14T22:15:00Z")
    counts = {"Launcher": {"failed": failed}, "Worker": {"active": 2}}
    body = resource("v1", {POLICY: "ExitCode"}, READY, CREATED, restarting, replicaStatuses=counts)
    assert plans.plan(body, *workers(), now=plans.NOW) == Plan((), plans.NOW + delay_s)
    assert plans.steps(plans.plan(body, *workers(), now=plans.NOW + delay_s)) == [["write"], ["create Pod pi-launcher"]]


@pytest.mark.parametrize(
    ("limit", "restarts", "has_failed"),
    [(None, 99, False), (0, 0, False), (0, 1, True), (1, 1, True), (3, 2, False), (3, 3, True)],
)
def test_restarts_in_place_count_for_v1s_backoff_limit(limit: int | None, restarts: int, has_failed: bool) -> None:
    changes = {POLICY: "OnFailure"} | ({} if limit is None else {"spec/runPolicy/backoffLimit": limit})
    body = resource("v1", changes, READY, CREATED, RUNNING, replicaStatuses=plans.ALL_ACTIVE)
    found = plans.plan(body, launcher(restarts=restarts), *workers())
    if not has_failed:
        assert found == Plan()
        return
    words = "Job pi has failed because it has reached the specified backoff limit"
    assert plans.conditions(found)["Failed"] == ("True", "BackoffLimitExceeded", words)
    assert plans.steps(found)[1] == ["tell BackoffLimitExceeded", "delete all workers", "delete Pod pi-launcher"]


def test_the_hubs_restarts_are_none_of_the_launchers() -> None:
    body = resource("v1", {POLICY: "OnFailure", "spec/runPolicy/backoffLimit": 1}, READY, CREATED, RUNNING)
    body["status"]["replicaStatuses"] = plans.ALL_ACTIVE
    pod = launcher()
    pod["spec"]["initContainers"] = [{"name": "hub", "restartPolicy": "Always"}, {"name": "fetch"}]
    up = {"ready": True, "state": {"running": {}}}
    pod["status"]["initContainerStatuses"] = [{"name": "hub", "restartCount": 2, **up}]
    assert plans.plan(body, pod, *workers()) == Plan()
    done = {"state": {"terminated": {"exitCode": 0}}}
    pod["status"]["initContainerStatuses"].append({"name": "fetch", "restartCount": 1, **done})
    assert "Failed" in plans.conditions(plans.plan(body, pod, *workers()))


def test_new_pods_count_for_v1s_backoff_limit() -> None:
    counts = {"Launcher": {"failed": 1}, "Worker": {}}
    changes = {POLICY: "ExitCode", "spec/runPolicy/backoffLimit": 2}
    body = resource("v1", changes, READY, CREATED, RUNNING, replicaStatuses=counts)
    found = plans.plan(body, launcher("Failed", code=137), *workers())
    assert plans.conditions(found)["Failed"][1] == "BackoffLimitExceeded"
    assert plans.conditions(found)["Failed"][2].endswith("backoff limit: pi-launcher: container mpi exited with 137")
    assert plans.status(found)["replicaStatuses"]["Launcher"] == {"failed": 2}


def test_a_launcher_that_was_deleted_is_made_anew() -> None:
    """What its containers ended with then is none of the job's."""
    body = resource("v1", None, READY, CREATED, RUNNING)
    going = plans.plan(body, launcher("Failed", code=143, deleted="2023-11-14T22:15:20Z"), *workers())
    assert not any("launcher" in one for step in plans.steps(going) for one in step)
    assert "Failed" not in str(going.steps)
    assert plans.steps(plans.plan(body, *workers()))[-1] == ["create Pod pi-launcher"]


COMPLETE = {"type": "Complete", "status": "True"}
LIMIT = {
    "type": "Failed",
    "status": "True",
    "reason": "BackoffLimitExceeded",
    "message": "Job has reached the specified backoff limit",
    "lastTransitionTime": "2023-11-14T22:14:40Z",
}


def test_a_v2beta1_launcher_has_failed_when_its_job_says_so() -> None:
    body = resource("v2beta1", None, READY, CREATED, RUNNING)
    failed = launcher("Failed", code=137, why="OOMKilled")
    goes_on = plans.plan(body, failed, *workers(), launcher_job=batch_job(failed=1), now=plans.NOW)
    assert "Failed" not in plans.conditions(goes_on)
    assert plans.status(goes_on)["replicaStatuses"]["Launcher"] == {"failed": 1}
    found = plans.plan(body, failed, *workers(), launcher_job=batch_job(LIMIT, failed=2))
    words = "Job has reached the specified backoff limit: pi-launcher: container mpi exited with 137 (OOMKilled)"
    assert plans.conditions(found)["Failed"] == ("True", "BackoffLimitExceeded/OOMKilled", words)
    assert plans.events(found) == [("Warning", "BackoffLimitExceeded/OOMKilled", words)]
    assert plans.status(found)["completionTime"] == "2023-11-14T22:14:40Z"
    assert plans.status(found)["replicaStatuses"]["Launcher"] == {"failed": 2}


def test_a_launcher_that_is_gone_before_its_job_has_failed_is_told_of_all_the_same() -> None:
    """The Job's controller lets go of a pod that is being deleted a moment before it says that the Job has failed."""
    body = resource("v2beta1", {POLICY: "Never"}, READY, CREATED, RUNNING)
    between = plans.plan(body, launcher(code=13), *workers(), launcher_job=batch_job(failed=1))
    body["status"] = plans.status(between)
    waits = plans.plan(body, *workers(), launcher_job=batch_job(failed=1), now=plans.NOW + 99)
    assert plans.conditions(waits)["LauncherWaiting"] == plans.conditions(between)["LauncherWaiting"]
    found = plans.plan(body, *workers(), launcher_job=batch_job(LIMIT, failed=2))
    words = "Job has reached the specified backoff limit: pi-launcher: container mpi exited with 13"
    assert plans.conditions(found)["Failed"] == ("True", "BackoffLimitExceeded", words)


def test_a_launcher_that_does_not_start_says_why() -> None:
    waiting = {"name": "mpi", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    pulls = launcher("Pending")
    pulls["status"] |= {"containerStatuses": [waiting], "podIP": "10.0.0.1"}
    found = plans.plan(resource("v1", None, READY, CREATED), pulls, *workers())
    words = "pi-launcher container mpi can't get its image (ErrImagePull): no such image"
    assert plans.conditions(found)["LauncherWaiting"] == ("True", "LauncherInTrouble", words)
    assert plans.events(found) == [("Warning", "LauncherInTrouble", words)]
    before = condition("LauncherWaiting", reason="LauncherInTrouble", message=words)
    starts = plans.plan(resource("v1", None, before, READY, CREATED), launcher(), *workers())
    assert "LauncherWaiting" not in plans.conditions(starts)


def test_a_launcher_of_a_dead_node_is_named_with_what_to_do() -> None:
    body = resource("v1", None, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher(deleted="2023-11-14T22:14:00Z"), *workers())
    status, reason, words = plans.conditions(found)["LauncherWaiting"]
    assert (status, reason) == ("True", "LauncherStuck")
    assert "kubectl -n default delete pod pi-launcher --force" in words


def test_a_job_that_ran_unseen_has_a_running_condition_too() -> None:
    body = resource("v2beta1", None, CREATED)
    found = plans.plan(body, *workers(), launcher_job=batch_job(COMPLETE, completionTime="2023-11-14T22:14:40Z"))
    assert plans.conditions(found)["Running"] == (
        "False",
        "MPIJobRunning",
        "MPIJob default/pi is finished but Running condition was never set.",
    )
    assert plans.status(found)["conditions"][-1]["type"] == "Succeeded"
    assert plans.status(found)["completionTime"] == "2023-11-14T22:14:40Z"


MESH = {"name": "mesh", "state": {"running": {"startedAt": START}}}


@pytest.mark.parametrize(
    ("beside", "after_s", "deletes"),
    [([MESH], 3.0, ["delete Pod pi-launcher"]), ([MESH], 1.0, []), ([], 3.0, [])],
    ids=["counted", "not in the second of its end", "the kubelet ends its own sidecars"],
)
def test_a_program_that_failed_beside_a_sidecar_is_made_to_count(
    beside: list[Any], after_s: float, deletes: list[str]
) -> None:
    """By a deletion that can't be taken for an interruption, which would not count."""
    body = resource("v2beta1", {POLICY: "Never"}, READY, CREATED, RUNNING)
    ended_at = seconds(START) or 0.0
    found = plans.plan(body, launcher(code=1, beside=beside), *workers(), now=ended_at + after_s)
    assert plans.steps(found) == [["write"], ["tell LauncherFailed", *deletes]]
    words = "pi-launcher: container mpi exited with 1; its Job tries again"
    assert plans.conditions(found)["LauncherWaiting"] == ("True", "LauncherFailed", words)
    if beside and not deletes:
        assert found.requeue_at == ended_at + 2


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        ({"created": "2023-11-14T22:14:00Z"}, "worker-1 was replaced, or added"),
        ({"phase": "Failed"}, "worker-1 failed"),
        ({"deleted": "2023-11-14T22:15:30Z"}, "worker-1 is being deleted"),
        (
            {"restarts": 1, "last": {"terminated": {"reason": "OOMKilled", "finishedAt": "2023-11-14T22:14:00Z"}}},
            "worker-1 was restarted (OOMKilled)",
        ),
        ({"restarts": 1, "last": {"terminated": {"finishedAt": "2023-11-14T22:13:00Z"}}}, ""),
        ({"phase": "Succeeded"}, ""),
        ({}, ""),
    ],
)
def test_a_success_that_lost_workers_says_so(worker: dict[str, Any], words: str) -> None:
    """Open MPI 5.0's mpirun may exit with 0 all the same."""
    body = resource("v1", None, READY, CREATED, RUNNING)
    second = workers(2, **{"phase": "Running", **worker})[1]
    found = plans.plan(body, launcher("Succeeded", code=0), workers()[0], second)
    assert plans.conditions(found)["Succeeded"][0] == "True"
    assert [event[:2] for event in plans.events(found)][1:] == ([("Warning", "WorkersLost")] if words else [])
    message = plans.conditions(found)["Succeeded"][2]
    assert words in message
    assert message.startswith("MPIJob default/pi successfully completed.")
    elastic = {"spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/command": ["horovodrun", "--min-np", "1"]}
    body = resource("v1", elastic, READY, CREATED, RUNNING)
    assert len(plans.events(plans.plan(body, launcher("Succeeded", code=0), workers()[0], second))) == 1
