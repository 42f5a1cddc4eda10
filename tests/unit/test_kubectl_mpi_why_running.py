"""`why` while a job has pods: its workers start, its launcher runs or is tried again."""

from __future__ import annotations

import pytest
from client_jobs import BEGAN, Object, facts, job, pod, told, with_sidecar, workers
from why_cases import LAUNCHER, OUTPUT, TRACEBACK, UP, V2_LAUNCHER, Case, check

from agents.client.diagnosis import diagnose, failed_container, running_launcher
from agents.client.facts import Facts, PodFacts
from agents.client.model import State
from agents.client.silence import SILENT_S, last_output
from agents.job.status import format_time

SSHD_MISSING = with_sidecar(pod("pi-worker-1", "ready"), "worker-agent")
MISSING = told("pi-worker-1", "FailedMount", 'MountVolume.SetUp failed for volume "k" : secret "keys" not found')

DEAD = (
    "probably died of a Python exception, and the other ranks wait for it: ValueError: bad shape. Run it with `python"
)
KILLED = "mpirun noticed that process rank 1 with PID 0 on node pi-worker-0 exited on signal 11 (Segmentation fault)."


def running(*output: str, silent_s: float | None, pods: list[Object] = UP) -> Facts:
    """A job that runs, and the end of its launcher's output."""
    return facts(job("v1", "Running"), *pods, pod(LAUNCHER, "ready"), output=output, silent_s=silent_s)


def shown(worker: Object) -> Object:
    """A worker whose agent sees its processes."""
    worker["spec"] |= {"shareProcessNamespace": True, "initContainers": [{"name": "a", "command": ["mpi-worker"]}]}
    return worker


CASES: dict[str, Case] = {
    "image can't be pulled": (
        facts(job("v1", "Created"), *workers("ready", "image-pull-backoff"), pod(LAUNCHER, "initializing")),
        State.STARTING,
        "ImagePullBackOff",
        ["1/2 ready · pi-worker-1 container mpi can't get its image", "Check the image's name, the registry"],
    ),
    "workers crash": (
        facts(job("v2beta1", "Created"), *workers("crash-loop", "crash-loop")),
        State.STARTING,
        "CrashLoopBackOff",
        ["crashes again and again (exit 1)", "`kubectl logs --previous` shows its last output (pod pi-worker-0)."],
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
    "running, and silent": (
        running("step 17", "", silent_s=200),
        State.RUNNING,
        "",
        [
            "on 2 of 2 workers. Its last output came 3 min 20 s ago: step 17. `kubectl mpi stacks pi` could show where",
            "its ranks are, but pi's workers don't show their processes: set spec.workerAgent: {processes: true} (`",
        ],
    ),
    "running, and silent, and its processes are seen": (
        running("a\x1b[2Jb", silent_s=SILENT_S, pods=[shown(pod("pi-worker-0", "ready")), UP[1]]),
        State.RUNNING,
        "",
        ["Its last output came 1 min ago: a?[2Jb. `kubectl mpi stacks pi` shows where its ranks are."],
    ),
    "running, and silent behind a progress bar": (
        running("1%|#\r2%|##\r", silent_s=200),
        State.RUNNING,
        "",
        ["Its last output came 3 min 20 s ago: 2%|##."],
    ),
    "running, and silent from its begin": (
        running(silent_s=290),
        State.RUNNING,
        "",
        ["Its launcher has written nothing for 4 min 50 s. `kubectl mpi stacks pi` could", "`python -u`."],
    ),
    "running, and silent, in its launcher's pod": (
        facts(
            job("v1", "Running", changes={"spec/mpiReplicaSpecs/Worker/replicas": 0}),
            pod(LAUNCHER, "ready"),
            silent_s=290,
        ),
        State.RUNNING,
        "",
        ["has written nothing for 4 min 50 s. A Python program may hold its output back: run it with `python -u`."],
    ),
    "a rank has died of an exception": (
        running("epoch 1", *TRACEBACK, silent_s=SILENT_S),
        State.RUNNING,
        "PythonException",
        [f"on 2 of 2 workers. A rank {DEAD} -m mpi4py PROGRAM`: an exception then ends the whole job."],
    ),
    "a rank has died of an exception, and wrote what it held back": (
        running(*TRACEBACK, "epoch 2", silent_s=SILENT_S),
        State.RUNNING,
        "PythonException",
        [f"A rank {DEAD}"],
    ),
    "a rank has died of an exception, and its launcher knows": (
        running(*TRACEBACK, KILLED, silent_s=SILENT_S),
        State.RUNNING,
        "",
        ["Its last output came 1 min ago: "],
    ),
    "a rank with a tag has died of an exception": (
        running(
            *(tagged for line in TRACEBACK for tagged in (f"[1,3]<stderr>:{line}", "[1,0]<stdout>:step")),
            silent_s=SILENT_S,
        ),
        State.RUNNING,
        "PythonException",
        [f"Rank 3 {DEAD}"],
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
        ["has failed; its operator has not reacted yet: launcher pi-launcher: container mpi exited with 3."],
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


@pytest.mark.parametrize(
    "output",
    [(), ("step 17",), TRACEBACK, tuple(f"[1,3]<stderr>:{line}" for line in TRACEBACK)],
)
def test_a_job_that_wrote_a_moment_ago_just_runs(output: tuple[str, ...]) -> None:
    found = diagnose(running(*output, silent_s=SILENT_S - 1))
    assert str(found) == "pi has been running for 5 min on 2 of 2 workers."


def test_of_an_exception_its_rank_s_lines_are_shown() -> None:
    found = diagnose(running("step", *TRACEBACK, silent_s=SILENT_S))
    assert (found.output_of, found.lines) == (LAUNCHER, ("step", *map(str.strip, TRACEBACK)))


@pytest.mark.parametrize(
    ("stamped", "output", "after_s"),
    [
        ((), (), 10),  # its start
        ((f"{format_time(BEGAN + 89)} a b", f"{format_time(BEGAN + 90)} "), ("a b", ""), 90),
        ((f"{format_time(BEGAN + 20)} a", "er", f"{format_time(BEGAN + 90)} b"), ("b",), 90),
        ((f"{format_time(BEGAN + 20)} long", "er line"), ("long", "er line"), 20),
        ((f"{format_time(BEGAN + 20)[:-1]}.123456789Z a",), ("a",), 20.123456),
    ],
)
def test_when_the_last_line_came(stamped: tuple[str, ...], output: tuple[str, ...], after_s: float) -> None:
    launcher = pod(LAUNCHER, "ready")
    launcher["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = format_time(BEGAN + 10)
    lines, at = last_output(stamped, PodFacts(launcher, "pi"))
    assert (lines, at) == (output, BEGAN + after_s)


def test_whose_output_is_read_while_a_job_runs() -> None:
    found = running_launcher(running(silent_s=None))
    assert found is not None
    assert found.name == LAUNCHER
    debugged = facts(job("v1", "Running", "Debugging"), *UP, pod(LAUNCHER, "ready"))
    waiting = running(silent_s=None, pods=workers("ready", "pulling"))
    for one in (
        debugged,
        waiting,
        facts(job("v1", "Created"), *UP),
        facts(job("v1", "Succeeded"), pod(LAUNCHER, "ready")),
    ):
        assert running_launcher(one) is None


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k", "t9k-3"])
@pytest.mark.parametrize("state", ["unschedulable", "image-pull-backoff", "crash-loop"])
def test_waiting_workers_are_reported_in_every_dialect(version: str, state: str) -> None:
    conditions = ["Created"] if version.startswith("v") else ["Initialized"]
    found = diagnose(facts(job(version, *conditions), *workers("ready", state)))
    assert found.state is State.STARTING
    assert "1/2 ready · pi-worker-1 " in found.what
    assert found.remedy


def test_of_a_restarted_container_the_previous_output_is_shown() -> None:
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
