"""`why`, for every dialect: what a job waits for or what it died of, in one paragraph, and what to do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from client_jobs import NOW, at, event, facts, job, pod, with_hub, workers

from agents.client.diagnosis import diagnose, failed_container
from agents.client.facts import Facts
from agents.client.model import State

LAUNCHER = "pi-launcher"
V2_LAUNCHER = "pi-launcher-x7k2p"  # of a batch Job
QUOTA = 'pods "pi-worker-0" is forbidden: exceeded quota: team, requested: cpu=8, used: cpu=0, limited: cpu=4'
UP = workers("ready", "ready")
OUTPUT = ("epoch 1", "epoch 2", "Traceback: out of luck")
SEGFAULT = (
    "step 17",
    "-" * 74,
    "mpirun noticed that process rank 3 with PID 0 on node pi-worker-1 exited on signal 11 (Segmentation fault).",
    "-" * 74,
)


def gone(pod_: dict[str, Any]) -> dict[str, Any]:
    return {**pod_, "metadata": {**pod_["metadata"], "deletionTimestamp": at(290)}}


def limited(pod_: dict[str, Any], memory: str) -> dict[str, Any]:
    changed = copy.deepcopy(pod_)
    changed["spec"]["containers"][0]["resources"] = {"limits": {"memory": memory}}
    return changed


# name of the case → (facts, state, reason, parts of the paragraph)
CASES: dict[str, tuple[Facts, State, str, list[str]]] = {
    "just created": (
        Facts(job("v1"), (), NOW - 299),
        State.PENDING,
        "",
        ["pi was just created."],
    ),
    "no operator": (
        facts(job("v2beta1")),
        State.PENDING,
        "NoOperator",
        ["No operator has taken up pi in 5 min.", "Is an MPI operator installed", "namespace default?"],
    ),
    "invalid and nobody says so": (
        facts(job("v1", changes={"spec/slotsPerWorker": 0})),
        State.BLOCKED,
        "Invalid",
        ["pi is not valid: spec.slotsPerWorker: ", "submit it again"],
    ),
    "invalid": (
        facts(job("v2beta1", "ValidationError", message="spec.slotsPerWorker: must be 1 or more")),
        State.BLOCKED,
        "ValidationError",
        ["pi can't start (ValidationError): spec.slotsPerWorker: must be 1 or more.", "Correct the job"],
    ),
    "left to another operator": (
        facts(job("v1", "OtherOperator", message="The job is left to another operator for MPIJobs, seen by its Lease")),
        State.PENDING,
        "OtherOperator",
        ["pi has not begun: The job is left to another operator for MPIJobs, seen by its Lease."],
    ),
    "left to another operator, which runs it": (
        facts(job("v1", "OtherOperator", "Running"), *UP, pod(LAUNCHER, "ready")),
        State.RUNNING,
        "",
        ["pi runs since 5 min on 2 of 2 workers."],
    ),
    "left to another controller": (
        facts(job("v2beta1", changes={"spec/runPolicy/managedBy": "kueue.x-k8s.io/multikueue"})),
        State.PENDING,
        "ManagedElsewhere",
        ["left to kueue.x-k8s.io/multikueue"],
    ),
    "suspended": (
        facts(job("v1", "Suspended", changes={"spec/runPolicy/suspend": True})),
        State.SUSPENDED,
        "Suspended",
        ["pi is suspended and has no pods.", "when runPolicy.suspend"],
    ),
    "suspended, and no operator is there": (
        facts(job("v1", changes={"spec/runPolicy/suspend": True})),
        State.SUSPENDED,
        "Suspended",
        ["pi is suspended and has no pods."],
    ),
    "paused, and a pod ends slowly": (
        facts(job("t9k", "Paused", changes={"spec/runMode/pause/enabled": True}), gone(UP[0])),
        State.SUSPENDED,
        "Suspended",
        ["; pi-worker-0 is still there."],
    ),
    "suspended, with a gang scheduler's queue": (
        facts(
            job(
                "v1",
                "Suspended",
                changes={"spec/runPolicy": {"suspend": True, "schedulingPolicy": {"queue": "gang"}}},
            )
        ),
        State.SUSPENDED,
        "Suspended",
        ["pi is suspended and has no pods."],
    ),
    "queued by Kueue": (
        facts(
            job(
                "v2beta1",
                "Suspended",
                changes={"spec/runPolicy/suspend": True, "metadata/labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
            )
        ),
        State.QUEUED,
        "NotAdmitted",
        ["pi waits in queue gpu to be admitted since 5 min.", "get workloads"],
    ),
    "quota, by our operator": (
        facts(job("v1", "Created", "CreationRefused", message=f"Pod pi-worker-0: {QUOTA}")),
        State.BLOCKED,
        "QuotaExceeded",
        ["can't create its pods: exceeded quota: team, requested: cpu=8, used: cpu=0, limited: cpu=4."],
    ),
    "quota, by mpi-operator's event": (
        facts(job("v2beta1", "Created"), events=(event(f"worker pod created failed: {QUOTA}", "MPIJobFailed"),)),
        State.BLOCKED,
        "QuotaExceeded",
        ["exceeded quota: team", "have the quota raised"],
    ),
    "quota, by the event of the launcher's Job": (
        facts(job("v2beta1", "Created"), *UP, events=(event(f"Error creating: {QUOTA}", kind="Job"),)),
        State.BLOCKED,
        "QuotaExceeded",
        ["exceeded quota: team"],
    ),
    "an old quota event, and all pods are there": (
        facts(job("v1", "Running"), *UP, pod(LAUNCHER, "ready"), events=(event(f"Error creating: {QUOTA}"),)),
        State.RUNNING,
        "",
        ["pi runs since 5 min on 2 of 2 workers."],
    ),
    "pod security": (
        facts(
            job("v2beta1", "Created"),
            events=(event('pods "pi-worker-0" is forbidden: violates PodSecurity "restricted:latest": x'),),
        ),
        State.BLOCKED,
        "CreationRefused",
        ["violates PodSecurity", "Correct the pod templates"],
    ),
    "image can't be pulled": (
        facts(job("v1", "Created"), *workers("ready", "image-pull-backoff"), pod(LAUNCHER, "initializing")),
        State.STARTING,
        "ImagePullBackOff",
        ["1/2 ready · pi-worker-1 container mpi can't get its image", "Check the image's name, the registry"],
    ),
    "invalid image name": (
        facts(job("v2beta1", "Created"), *workers("invalid-image-name", "invalid-image-name")),
        State.STARTING,
        "InvalidImageName",
        ["pi-worker-0, pi-worker-1 container mpi can never start", "Correct the image's name"],
    ),
    "unschedulable": (
        facts(job("v2beta1", "Created"), *workers("ready", "unschedulable")),
        State.STARTING,
        "Unschedulable",
        ["pi-worker-1 unschedulable 4 min 59 s: 0/12 nodes are available: 12 Insufficient cpu", "Ask for less"],
    ),
    "a missing Secret": (
        facts(job("v1", "Created"), *workers("config-error", "ready")),
        State.STARTING,
        "CreateContainerConfigError",
        ['secret "missing" not found', "Check the ConfigMaps, Secrets and volumes"],
    ),
    "workers crash": (
        facts(job("v2beta1", "Created"), *workers("crash-loop", "crash-loop")),
        State.STARTING,
        "CrashLoopBackOff",
        ["crashes again and again (exit 1)", "`kubectl logs --previous` shows its last output (pod pi-worker-0)."],
    ),
    "workers are pulling": (
        facts(job("v1", "Created"), *workers("pulling", "pending")),
        State.STARTING,
        "ContainerCreating",
        ["0/2 ready", "pi-worker-0 pulling image or mounting volumes"],
    ),
    "workers are not created yet": (
        facts(job("v1", "Created"), UP[0]),
        State.STARTING,
        "WorkersMissing",
        ["1/2 ready · pi-worker-1 not created yet"],
    ),
    "the launcher starts": (
        facts(job("v1", "Created"), *UP, pod(LAUNCHER, "image-pull-backoff")),
        State.STARTING,
        "ImagePullBackOff",
        ["pi waits for its launcher: pi-launcher container mpi can't get its image"],
    ),
    "the launcher is not there yet": (
        facts(job("v1", "Created"), *UP),
        State.STARTING,
        "LauncherMissing",
        ["its launcher is not created yet"],
    ),
    "running": (
        facts(job("v1", "Running"), *UP, pod(LAUNCHER, "ready")),
        State.RUNNING,
        "",
        ["pi runs since 5 min on 2 of 2 workers."],
    ),
    "running, and a worker was evicted": (
        facts(job("v1", "Running"), UP[0], pod("pi-worker-1", "evicted"), pod(LAUNCHER, "ready")),
        State.RUNNING,
        "Evicted",
        ["runs, but not all its workers are ready: 1/2 ready · pi-worker-1 evicted", "low on resource: memory"],
    ),
    "the launcher crashes again and again": (
        facts(job("v2beta1", "Running"), *UP, pod(V2_LAUNCHER, "crash-loop", exit_code=2), output=OUTPUT),
        State.RESTARTING,
        "CrashLoopBackOff",
        ["pi's launcher is started again (failed 3 times): launcher pi-launcher-x7k2p: container mpi exited with 2."],
    ),
    "a launcher that did not wait for its workers": (
        facts(
            job("v2beta1", "Created"),
            *workers("ready", "pulling"),
            pod(V2_LAUNCHER, "crash-loop"),
            output=("ssh: Could not resolve hostname pi-worker-1.pi: Name or service not known",),
        ),
        State.RESTARTING,
        "ContainerCreating",
        ["1/2 ready · pi-worker-1 pulling image", "Meanwhile pi's launcher is started again", "can't resolve a worker"],
    ),
    "the launcher has failed, and nobody has said what follows": (
        facts(job("v1", "Running"), *UP, pod(LAUNCHER, "failed", exit_code=3)),
        State.RUNNING,
        "ExitCode3",
        ["pi's launcher has failed; its operator has yet to react: launcher pi-launcher: container mpi exited with 3."],
    ),
    "between two launchers": (
        facts(job("v2beta1", "Restarting", message="pi-launcher-a: container mpi exited with 1"), *UP),
        State.RESTARTING,
        "MPIJobRestarting",
        ["started again: pi-launcher-a: container mpi exited with 1.", "`kubectl mpi events pi`"],
    ),
    "between two launchers, and our operator has kept the last lines": (
        facts(
            job(
                "v2beta1",
                "Restarting",
                message="pi-launcher-a: exited with 1: …you can use the --oversubscribe option to ignore the "
                "| number of available slots when deciding th…",
            ),
            *UP,
        ),
        State.RESTARTING,
        "MPIJobRestarting",
        ["Start fewer ranks, or raise slotsPerWorker"],
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
            "exited with 139 (SIGSEGV: segmentation fault).",
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
    "failed: the clean-up of workers is no cause": (
        facts(
            job("v1", "Failed"),
            pod(LAUNCHER, "failed", exit_code=2, ended=100),
            pod("pi-worker-0", "failed", exit_code=143, ended=101),
        ),
        State.FAILED,
        "ExitCode2",
        ["launcher pi-launcher: container mpi exited with 2."],
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
    "failed: Open MPI as root": (
        facts(
            job("v2beta1", "Failed"),
            pod(V2_LAUNCHER, "failed"),
            output=("mpirun has detected an attempt to run as root.",),
        ),
        State.FAILED,
        "RunsAsRoot",
        ["Open MPI refuses to run as root.", "--allow-run-as-root"],
    ),
    "failed: time limit": (
        facts(job("v1", "Failed", reason="DeadlineExceeded", message="Job was active longer than 60 s")),
        State.FAILED,
        "DeadlineExceeded",
        ["pi failed after 2 min: Job was active longer than 60 s.", "activeDeadlineSeconds"],
    ),
    "failed: ranks lost": (
        facts(job("v1", "Failed", reason="RanksLost", message="ranks were lost while mpirun ran: pi-worker-1: gone")),
        State.FAILED,
        "RanksLost",
        ["ranks were lost while mpirun ran: pi-worker-1: gone."],
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
    "succeeded, without its workers": (
        facts(job("v1", "Succeeded", "WorkersUnused", message="the launcher has started nothing in the workers")),
        State.SUCCEEDED,
        "",
        ["pi succeeded after 2 min. the launcher has started nothing in the workers."],
    ),
    "being deleted": (
        facts(job("v1", "Running", changes={"metadata/deletionTimestamp": at(290)}), UP[0], UP[1]),
        State.DELETING,
        "Deleted",
        ["pi is being deleted; pi-worker-0 and pi-worker-1 are still there."],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_why(name: str) -> None:
    given, state, reason, parts = CASES[name]
    found = diagnose(given)
    assert (found.state, found.reason) == (state, reason), found
    assert [part for part in parts if part not in str(found)] == [], str(found)
    assert "\n" not in str(found)
    assert ".." not in str(found)


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k", "t9k-3"])
@pytest.mark.parametrize("state", ["unschedulable", "image-pull-backoff", "crash-loop"])
def test_waiting_workers_are_told_of_in_every_dialect(version: str, state: str) -> None:
    conditions = ["Created"] if version.startswith("v") else ["Initialized"]
    found = diagnose(facts(job(version, *conditions), *workers("ready", state)))
    assert found.state is State.STARTING
    assert "1/2 ready · pi-worker-1 " in found.what
    assert found.remedy


def test_the_output_that_is_shown_is_of_the_container_that_failed_first() -> None:
    worker = pod("pi-worker-0", "oom-killed", ended=98)
    end = failed_container(facts(job("v1", "Failed"), pod(LAUNCHER, "failed", ended=100), worker))
    assert end is not None
    assert (end.pod, end.container, end.is_current) == ("pi-worker-0", "mpi", True)


def test_of_a_container_that_was_started_again_the_former_output_is_shown() -> None:
    end = failed_container(facts(job("v1", "Running"), *UP, pod(LAUNCHER, "crash-loop")))
    assert end is not None
    assert not end.is_current


def test_a_running_job_has_no_failed_container() -> None:
    restarted = pod("pi-worker-0", "crash-loop")
    assert failed_container(facts(job("v1", "Running"), restarted, UP[1], pod(LAUNCHER, "ready"))) is None


def test_last_lines_are_bounded_and_printable() -> None:
    lines = tuple(f"\x1b[31mline {number}\x07" for number in range(50))
    found = diagnose(facts(job("v1", "Failed"), pod(LAUNCHER, "failed"), output=lines))
    assert found.lines == tuple(f"?[31mline {number}?" for number in range(45, 50))
    assert found.output_of == LAUNCHER


def test_nothing_from_outside_can_forge_a_line_or_control_a_terminal() -> None:
    evil = "a\nb\x1b[2J"
    forged = pod("pi-worker-0", "evicted", message=evil)
    forged["status"]["reason"] = evil
    found = diagnose(facts(job("v1", "Running"), forged, UP[1], pod(LAUNCHER, "ready")))
    assert (found.reason, str(found).isprintable()) == ("a b?[2J", True)
    queued = {"spec/runPolicy/suspend": True, "metadata/annotations": {"kueue.x-k8s.io/queue-name": evil}}
    assert str(diagnose(facts(job("v1", "Suspended", changes=queued)))).isprintable()


def test_what_a_container_says_can_not_forge_a_line() -> None:
    found = diagnose(facts(job("v1", "Failed", reason="X", message="a\nb\x1b[2J"), *UP))
    assert "a b?[2J" in found.what
