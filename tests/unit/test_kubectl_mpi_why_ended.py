"""`why` of a job that has ended: what it died of."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from client_jobs import at, attempted, facts, job, pod, told, with_hub, workers
from why_cases import LAUNCHER, OUTPUT, UP, V2_LAUNCHER, Case, check

from agents.client.diagnosis import failed_container
from agents.client.model import State
from agents.client.objects import event_names

WORKERS = "spec/mpiReplicaSpecs/Worker/template/spec/containers"
LIMITED = {"name": "mpi", "image": "example/mpi", "resources": {"limits": {"memory": "64Mi"}}}
LOST = (
    "ORTE has lost communication with a remote daemon.",
    "  HNP daemon   : [[37562,0],0] on node pi-launcher",
    "  Remote daemon: [[37562,0],1] on node pi-worker-1.pi.default.svc",
)
SEGFAULT = (
    "step 17",
    "-" * 74,
    "mpirun noticed that process rank 3 with PID 0 on node pi-worker-1 exited on signal 11 (Segmentation fault).",
    "-" * 74,
)


def limited(pod_: dict[str, Any], memory: str) -> dict[str, Any]:
    changed = copy.deepcopy(pod_)
    changed["spec"]["containers"][0]["resources"] = {"limits": {"memory": memory}}
    return changed


CASES: dict[str, Case] = {
    "a worker that crashed before the launcher reached it": (
        facts(
            job("v2beta1", "Failed"),
            *workers("ready", "crash-loop"),
            pod(V2_LAUNCHER, "failed", exit_code=255, started=110, ended=120),
            output=("ssh: connect to host pi-worker-1 port 22: Connection refused", "-" * 70, "ORTE was unable"),
        ),
        State.FAILED,
        "CrashLoopBackOff",
        ["No sshd listens", "pi-worker-1 is not ready: container mpi crashes again and again (exit 1)"],
    ),
    "a shell's rank was killed": (
        facts(
            job("v1", "Failed", changes={WORKERS: [LIMITED]}),
            *UP,
            pod(LAUNCHER, "failed", exit_code=137),
            output=("Killed", "Process name: [[5,1],0]", "Exit code: 137"),
        ),
        State.FAILED,
        "ExitCode137",
        ["container mpi exited with 137. The first rank", "memory limit (now 64Mi): raise it"],
    ),
    "mpirun started no daemon in a worker that was evicted": (
        facts(
            job("v2beta1", "Failed"),
            *UP,
            pod(V2_LAUNCHER, "failed", exit_code=255),
            events=(told("pi-worker-1", "Evicted", "Usage of EmptyDir exceeds the limit"),),
            output=("ORTE was unable to reliably start one or more daemons.",),
        ),
        State.FAILED,
        "Evicted",
        ["could not start its daemon", "pi-worker-1 was taken away (Evicted)", "not at fault"],
    ),
    "mpirun lost a worker, which was evicted": (
        facts(
            job("v1", "Failed"),
            *UP,
            pod(LAUNCHER, "failed", exit_code=205),
            events=(told("pi-worker-1", "Evicted", "Usage of EmptyDir exceeds the limit"),),
            output=LOST,
        ),
        State.FAILED,
        "Evicted",
        ["(pi-worker-1). pi-worker-1 was taken away (Evicted): Usage of EmptyDir exceeds the limit.", "not at fault"],
    ),
    "mpirun lost a worker, and another was evicted before this launcher": (
        facts(
            job("v1", "Failed"),
            *UP,
            pod(LAUNCHER, "failed", exit_code=205, started=100, ended=110),
            events=(told("pi-worker-1", "Evicted", "Usage of EmptyDir exceeds the limit"),),
            output=LOST,
        ),
        State.FAILED,
        "WorkerLost",
        ["Mpirun lost a worker"],
    ),
    "mpirun lost a worker, and nobody knows why": (
        facts(job("v1", "Failed"), *UP, pod(LAUNCHER, "failed", exit_code=205), output=LOST),
        State.FAILED,
        "WorkerLost",
        [
            "Mpirun lost a worker: its pod ended, or the network between them failed (pi-worker-1).",
            "`kubectl mpi events`",
        ],
    ),
    "a launcher that did not wait for a worker, which can't start": (
        facts(
            job("v2beta1", "Failed", reason="BackoffLimitExceeded"),
            *workers("ready", "image-pull-backoff"),
            pod(V2_LAUNCHER, "failed", exit_code=1),
            output=("ssh: Could not resolve hostname pi-worker-1.pi: Name or service not known",),
        ),
        State.FAILED,
        "ImagePullBackOff",
        ["container mpi exited with 1", "pi-worker-1 is not ready: container mpi can't get its image", "pull secret"],
    ),
    "a deadline, and a worker without a node": (
        facts(job("v1", "Failed", reason="DeadlineExceeded", message="late"), *workers("ready", "unschedulable")),
        State.FAILED,
        "Unschedulable",
        ["pi failed after 2 min: late. pi-worker-1 is not ready: unschedulable: 0/12", "Ask for less"],
    ),
    "succeeded": (
        facts(job("v1", "Succeeded", message="MPIJob default/pi successfully completed.")),
        State.SUCCEEDED,
        "",
        ["pi succeeded after 2 min."],
    ),
    "succeeded, with a doubt": (
        facts(job("v1", "Succeeded", message="MPIJob default/pi successfully completed. pi-worker-1 was lost")),
        State.SUCCEEDED,
        "",
        ["pi succeeded after 2 min. pi-worker-1 was lost"],
    ),
    "t9k's word for success": (
        facts(job("t9k", "Completed")),
        State.SUCCEEDED,
        "",
        ["pi succeeded"],
    ),
    "failed: the program's exit code": (
        facts(job("v1", "Running", "Failed"), pod(LAUNCHER, "failed", exit_code=3), output=OUTPUT),
        State.FAILED,
        "ExitCode3",
        ["pi failed after 2 min: launcher pi-launcher: container mpi exited with 3.", "The program's own output"],
    ),
    "failed: mpirun names no rank": (
        facts(
            job("v2beta1", "Failed"),
            pod(V2_LAUNCHER, "failed", exit_code=3),
            *UP,
            output=(
                "hello",
                "-" * 74,
                "Primary job  terminated normally, but 1 process returned",
                "a non-zero exit code. Per user-direction, the job has been aborted.",
                "-" * 74,
            ),
        ),
        State.FAILED,
        "ExitCode3",
        [
            "exited with 3. Mpirun names no rank, it says only: 1 process returned a non-zero exit code. ",
            "`kubectl mpi logs pi`",
        ],
    ),
    "failed: no such program": (
        facts(job("v1", "Failed"), pod(LAUNCHER, "failed", exit_code=127)),
        State.FAILED,
        "ExitCode127",
        ["exited with 127", "The image lacks this program"],
    ),
    "failed: a rank crashed": (
        facts(job("v2beta1", "Failed"), pod(V2_LAUNCHER, "failed", exit_code=139), *UP, output=SEGFAULT),
        State.FAILED,
        "Signal11",
        [
            "exited with 139.",
            "The first rank to fail: rank 3 on pi-worker-1 was killed by signal 11 (Segmentation fault).",
            "under a debugger",
        ],
    ),
    "failed: a rank crashed, long after a line that looks like a mistake": (
        facts(
            job("v2beta1", "Failed"),
            pod(V2_LAUNCHER, "failed", exit_code=139),
            *UP,
            output=("can't write the checkpoint: No space left on device; going on without", *SEGFAULT),
        ),
        State.FAILED,
        "Signal11",
        ["was killed by signal 11 (Segmentation fault).", "under a debugger"],
    ),
    "failed: a bus error, by a full /dev/shm": (
        facts(
            job("v2beta1", "Failed"),
            pod(V2_LAUNCHER, "failed", exit_code=135),
            *UP,
            output=tuple(line.replace("11 (Segmentation fault)", "7 (Bus error)") for line in SEGFAULT),
        ),
        State.FAILED,
        "NoSpace",
        ["was killed by signal 7 (Bus error).", "Mount an emptyDir"],
    ),
    "failed: the launcher was out of memory": (
        facts(job("v1", "Failed"), limited(pod(LAUNCHER, "oom-killed"), "256Mi")),
        State.FAILED,
        "OOMKilled",
        ["exited with 137 (OOMKilled).", "Raise its memory limit (now 256Mi)"],
    ),
    "failed: a worker was out of memory, the launcher noticed": (
        facts(
            job("v1", "Failed"),
            pod(LAUNCHER, "failed", exit_code=137, ended=100),
            limited(pod("pi-worker-0", "oom-killed", ended=98), "1Gi"),
            pod("pi-worker-1", "failed", exit_code=143, ended=103),  # the clean-up
        ),
        State.FAILED,
        "OOMKilled",
        ["worker pi-worker-0: container mpi exited with 137 (OOMKilled).", "(now 1Gi)"],
    ),
    "failed: a worker's crash before this launcher is no cause": (
        facts(
            job("v1", "Failed"),
            pod(LAUNCHER, "failed", exit_code=2, started=60, ended=100),
            pod("pi-worker-0", "crash-loop", ended=30),
        ),
        State.FAILED,
        "ExitCode2",
        ["launcher pi-launcher: container mpi exited with 2."],
    ),
    "failed: how a sidecar was ended behind it is no cause": (
        facts(job("v1", "Failed"), with_hub(pod(LAUNCHER, "failed", exit_code=3, ended=100), ended=101)),
        State.FAILED,
        "ExitCode3",
        ["launcher pi-launcher: container mpi exited with 3."],
    ),
    "failed: evicted": (
        facts(job("v1", "Failed"), pod(LAUNCHER, "evicted")),
        State.FAILED,
        "Evicted",
        ["pi-launcher failed (Evicted): The node was low on resource: memory.", "The program is not at fault"],
    ),
    "failed: time limit": (
        facts(job("v1", "Failed", reason="DeadlineExceeded", message="Job was active longer than 60 s")),
        State.FAILED,
        "DeadlineExceeded",
        ["pi failed after 2 min: Job was active longer than 60 s.", "activeDeadlineSeconds"],
    ),
    "failed, and the launcher's pod is gone": (
        facts(job("v2beta1", "Failed", reason="BackoffLimitExceeded", message="Job has reached the limit")),
        State.FAILED,
        "BackoffLimitExceeded",
        ["pi failed after 2 min: Job has reached the limit.", "`kubectl mpi events pi` may show more."],
    ),
    "failed, the pod is gone, and our operator has kept its last lines": (
        facts(
            job(
                "v2beta1",
                "Failed",
                reason="BackoffLimitExceeded",
                message="pi-launcher-x: container mpi exited with 1: mpirun has detected an attempt to run as root.",
            )
        ),
        State.FAILED,
        "BackoffLimitExceeded",
        ["pi-launcher-x: container mpi exited with 1", "Add --allow-run-as-root"],
    ),
    "failed, the pod is gone, and our operator has listed the attempt": (
        facts(attempted("pi-launcher-x: container mpi exited with 137 (OOMKilled): epoch 1 | epoch 2")),
        State.FAILED,
        "OOMKilled",
        ["pi failed after 2 min: launcher pi-launcher-x: container mpi exited with 137 (OOMKilled).", "memory limit"],
    ),
    "failed, the pod is gone, and an attempt that has no exit code is listed": (
        facts(attempted("pi-launcher-x failed (Evicted): low on memory")),
        State.FAILED,
        "BackoffLimitExceeded",
        ["pi failed after 2 min: Job has reached the limit."],
    ),
    "succeeded, without its workers": (
        facts(job("v1", "Succeeded", "WorkersUnused", message="the launcher has started nothing in the workers")),
        State.SUCCEEDED,
        "",
        ["pi succeeded after 2 min. the launcher has started nothing in the workers."],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_why(name: str) -> None:
    check(*CASES[name])


def test_the_output_that_is_shown_is_of_the_container_that_failed_first() -> None:
    worker = pod("pi-worker-0", "oom-killed", ended=98)
    end = failed_container(facts(job("v1", "Failed"), pod(LAUNCHER, "failed", ended=100), worker))
    assert end is not None
    assert (end.pod, end.container, end.is_current) == ("pi-worker-0", "mpi", True)


def test_events_of_a_worker_that_has_been_replaced_are_asked_for() -> None:
    """It is ready, and the one that was evicted in its place is known by events alone."""
    launcher, *found = pod(LAUNCHER, "failed"), *workers("ready", "ready")
    found[1]["metadata"]["creationTimestamp"] = at(50)
    assert event_names(facts(job("v1", "Failed"), launcher, *found)) == ["pi", LAUNCHER, "pi-worker-1"]
