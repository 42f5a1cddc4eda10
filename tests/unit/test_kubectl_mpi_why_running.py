"""`why` while a job has pods: its workers start, its launcher runs or is tried again."""

from __future__ import annotations

import pytest
from client_jobs import facts, job, pod, told, with_sidecar, workers
from why_cases import LAUNCHER, OUTPUT, UP, V2_LAUNCHER, Case, check

from agents.client.diagnosis import diagnose, failed_container
from agents.client.model import State

SSHD_MISSING = with_sidecar(pod("pi-worker-1", "ready"), "worker-agent")
MISSING = told("pi-worker-1", "FailedMount", 'MountVolume.SetUp failed for volume "k" : secret "keys" not found')

CASES: dict[str, Case] = {
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
    "a worker crashes, and the launcher waits for it": (
        facts(job("v1", "Created"), UP[0], pod("pi-worker-1", "failed"), pod(LAUNCHER, "initializing")),
        State.STARTING,
        "ExitCode1",
        ["pi waits for its workers: 1/2 ready", "pi-worker-1"],
    ),
    "a worker without sshd": (
        facts(job("v2beta1", "Running"), UP[0], SSHD_MISSING, pod(LAUNCHER, "ready")),
        State.RUNNING,
        "NoSshd",
        ["1/2 ready · pi-worker-1 running, no sshd answers in it", "Its command must start sshd"],
    ),
    "a worker's Secret is missing": (
        facts(job("v1", "Created"), *workers("ready", "pulling"), events=(MISSING,)),
        State.STARTING,
        "FailedMount",
        ["pi-worker-1 can't start (FailedMount)", 'secret "keys" not found', "Create the Secret, ConfigMap or volume"],
    ),
    "a worker's Secret was missing, and its image is pulled now": (
        facts(job("v1", "Created"), *workers("ready", "pulling"), events=(MISSING, told("pi-worker-1", "Pulling", ""))),
        State.STARTING,
        "ContainerCreating",
        ["pi-worker-1 pulling image or mounting volumes"],
    ),
    "the launcher has no network": (
        facts(
            job("v1", "Created"),
            *UP,
            pod(LAUNCHER, "pulling"),
            events=(told(LAUNCHER, "FailedCreatePodSandBox", "no address"),),
        ),
        State.STARTING,
        "FailedCreatePodSandBox",
        ["pi-launcher can't start (FailedCreatePodSandBox): no address.", "network plugin"],
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
        ["pi has been running for 5 min on 2 of 2 workers."],
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
}


@pytest.mark.parametrize("name", CASES)
def test_why(name: str) -> None:
    check(*CASES[name])


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k", "t9k-3"])
@pytest.mark.parametrize("state", ["unschedulable", "image-pull-backoff", "crash-loop"])
def test_waiting_workers_are_told_of_in_every_dialect(version: str, state: str) -> None:
    conditions = ["Created"] if version.startswith("v") else ["Initialized"]
    found = diagnose(facts(job(version, *conditions), *workers("ready", state)))
    assert found.state is State.STARTING
    assert "1/2 ready · pi-worker-1 " in found.what
    assert found.remedy


def test_of_a_container_that_was_started_again_the_former_output_is_shown() -> None:
    end = failed_container(facts(job("v1", "Running"), *UP, pod(LAUNCHER, "crash-loop")))
    assert end is not None
    assert not end.is_current


def test_of_a_worker_that_crashes_the_last_output_is_shown() -> None:
    pods = (pod("pi-worker-0", "crash-loop"), UP[1], pod(LAUNCHER, "ready"))
    end = failed_container(facts(job("v1", "Running"), *pods))
    assert end is not None
    assert (end.pod, end.is_current) == ("pi-worker-0", False)
    assert diagnose(facts(job("v1", "Running"), *pods, output=OUTPUT)).lines == OUTPUT
    assert failed_container(facts(job("v1", "Running"), *UP, pod(LAUNCHER, "ready"))) is None


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available", "Ask for less (requests"),
        (
            "0/9 nodes are available: 1 node(s) had untolerated taint {a: b}, 8 Insufficient memory.",
            "Ask for less (requests",
        ),
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "without its device plugin"),
        ("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", "label a node"),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}.", "add a toleration"),
        ('0/1 nodes are available: persistentvolumeclaim "data" not found.', "Create the PersistentVolumeClaim"),
        ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "StorageClass"),
        ("0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.", "host ports"),
        ("no nodes available to schedule pods", "Ask for less (requests"),
    ],
)
def test_what_to_do_about_an_unschedulable_pod(message: str, remedy: str) -> None:
    found = diagnose(facts(job("v1", "Created"), UP[0], pod("pi-worker-1", "unschedulable", message=message)))
    assert remedy in found.remedy
