"""`kubectl mpi` as people call it, on a stand-in cluster: with the real operator, or with what others leave."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from agents.client import ForbiddenError, ManifestError, MpiClient, NotFoundError, State, WaitTimeoutError
from agents.playground.client import Client
from agents.playground.cluster import Cluster
from agents.playground.operated import Operated
from rshagent import __version__
from tests.ports import free_port
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Object = dict[str, Any]
ESCAPE = "\x1b["


class Shell:
    """A user's shell: `kubectl-mpi` with a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig

    def environ(self, **more: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "KUBERNETES_SERVICE_HOST"}
        }
        folder = os.path.dirname(sys.executable)  # kubectl is there
        path = f"{folder}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "KUBECONFIG": self.kubeconfig, "PATH": path, "TERM": "xterm", **more}

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "agents.kubectl_mpi", *arguments]
        return subprocess.Popen(command, env=self.environ(), stdin=subprocess.DEVNULL, text=True, **streams)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Call it; return stdout, or stderr if it is to fail with a code."""
        command = [sys.executable, "-m", "agents.kubectl_mpi", *arguments]
        done = subprocess.run(
            command, env=self.environ(), input=stdin, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert ESCAPE not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr if code else done.stdout

    def on_terminal(self, *arguments: str, **more: str) -> str:
        """Call it with a terminal as its stdout; return what is on that."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "agents.kubectl_mpi", *arguments]
        with subprocess.Popen(command, env=self.environ(**more), stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            found = b""
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # EIO: its end
                    break
                if not data:
                    break
                found += data
        os.close(ours)
        assert process.returncode == 0, found
        return found.decode()


@pytest.fixture(scope="module")
def operated() -> Iterator[Operated]:
    with Operated(lambda _line: None) as operated:
        operated.install("OpenMPI")
        operated.set_up()
        yield operated


@pytest.fixture
def shell(operated: Operated) -> Shell:
    return Shell(operated.cluster.kubeconfig())


def manifest(name: str, *command: str, version: str = "v1", **spec: Any) -> str:
    """A job whose launcher runs this command; its workers wait."""
    container = {"name": "mpi", "image": "example/mpi"}
    roles = {
        "Launcher": {"template": {"spec": {"containers": [{**container, "command": [*command]}]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    metadata = {"name": name, "annotations": {"mpi-agents/transport": "exec"}}
    body = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": metadata}
    return str(yaml.safe_dump({**body, "spec": {"mpiReplicaSpecs": roles, "runPolicy": spec}}))


def cells(table: str, name: str) -> list[str]:
    """A job's line of a table."""
    return next(line.split() for line in table.splitlines() if line.split()[:1] == [name])


def test_a_healthy_job(shell: Shell) -> None:
    job = manifest("well", "mpirun", "--allow-run-as-root", "-n", "2", "sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK")
    assert shell.run("submit", "-f", "-", stdin=job) == "mpijob.kubeflow.org/well created\n"
    assert "well succeeded after" in shell.run("wait", "well", "--timeout", "60s")
    said = shell.run("logs", "well").splitlines()
    assert sorted(line for line in said if line.startswith("rank ")) == ["rank 0", "rank 1"]  # mpirun may warn
    assert shell.run("logs", "well", "--tail", "1") in {"rank 0\n", "rank 1\n"}
    assert cells(shell.run("list"), "well")[:4] == ["well", "Succeeded", "-", "-"]
    assert "mpijob.kubeflow.org/well\n" in shell.run("list", "-A", "-o", "name")
    screen = shell.run("status", "well")
    assert "default/well: Succeeded" in screen
    assert "launcher well-launcher ended with exit code 0" in screen
    assert json.loads(shell.run("status", "well", "-o", "json"))["exit_code"] == 0
    assert yaml.safe_load(shell.run("why", "well", "-o", "yaml"))["state"] == "Succeeded"
    until(lambda: "MPIJobSucceeded" in shell.run("events", "well"), "the event of its end")
    assert shell.run("attach", "well") == shell.run("logs", "well") == shell.run("logs", "well", "-f")
    assert shell.run("delete", "well") == "mpijob.kubeflow.org/well deleted\n"
    assert 'no MPIJob "well" in namespace "default"' in shell.run("why", "well", code=4)
    assert shell.run("delete", "well", "--ignore-not-found") == ""


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_failing_launcher(shell: Shell, version: str) -> None:
    command = ("sh", "-c", "echo epoch 1; echo out of luck; exit 3")
    shell.run("submit", "-f", "-", stdin=manifest(f"ill-{version}", *command, version=version, backoffLimit=0))
    until(lambda: cells(shell.run("list"), f"ill-{version}")[1] in {"Failed", "Restarting"}, "it fails")
    found = shell.run("why", f"ill-{version}")
    if (
        version == "v1"
    ):  # of v2beta1 the launcher's Job deletes the pod, now and then before the operator has seen its end
        assert "container mpi exited with 3" in found
        assert shell.run("wait", "ill-v1", code=1) == ""
        assert found.splitlines()[1:] == ["Last lines of ill-v1-launcher:", "  | epoch 1", "  | out of luck"]
        assert cells(shell.run("list", "-o", "wide"), "ill-v1")[1:3] == ["Failed", "ExitCode3"]
        assert "ill-v1 failed after" in shell.run("attach", "ill-v1", code=3)
        assert shell.run("rerun", "ill-v1") == "mpijob.kubeflow.org/ill-v1-2 created\n"
        shell.run("wait", "ill-v1-2", code=1)
    else:
        assert "container mpi exited with 3" in found or "The launcher's pod is gone" in found
        shell.run("delete", "ill-v2beta1")


def test_an_image_that_can_not_be_pulled(shell: Shell, operated: Operated) -> None:
    job = yaml.safe_load(manifest("pulls", "sleep", "600"))
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["readinessProbe"] = {"exec": {"command": ["false"]}, "periodSeconds": 600}
    shell.run("submit", "-f", "-", stdin=yaml.safe_dump(job))
    until(lambda: "pulls-launcher" in shell.run("status", "pulls"), "all pods are there")
    assert cells(shell.run("list"), "pulls")[1:3] == ["Starting", "NotReady"]
    operated.cluster.set_state("pulls-worker-1", "image-pull-backoff")
    assert cells(shell.run("list"), "pulls")[1:4] == ["Starting", "ImagePullBackOff", "0/2"]
    found = shell.run("why", "pulls")
    assert "pulls-worker-1 container mpi can't get its image (ImagePullBackOff)" in found
    assert "Check the image's name, the registry and the pull secret." in found
    assert cells(shell.run("status", "pulls"), "pulls-worker-1")[1] == "ImagePullBackOff"
    waiting = shell.run("wait", "pulls", "--timeout", "1s", code=124)
    assert "not within 1 s: pulls waits for its workers" in waiting
    shell.run("delete", "pulls")


def test_a_suspended_job(shell: Shell) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("rests", "true", suspend=True))
    until(lambda: cells(shell.run("list"), "rests")[1] == "Suspended", "it is suspended")
    assert "rests is suspended and has no pods." in shell.run("why", "rests")
    assert "rests has no launcher pod: rests is suspended" in shell.run("logs", "rests", code=4)
    assert "rests has not ended" in shell.run("rerun", "rests", code=2)
    shell.run("delete", "rests")


def test_a_job_is_paused_debugged_and_resumed(shell: Shell) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("stops", "sh", "-c", "echo begun; exec sleep 600"))
    shell.run("wait", "stops", "--for", "running")
    assert shell.run("pause", "stops") == "mpijob.kubeflow.org/stops paused\n"
    until(lambda: "stops is suspended and has no pods." in shell.run("why", "stops"), "its pods are gone")
    assert shell.run("debug", "stops", "on") == "mpijob.kubeflow.org/stops debug on\n"
    assert shell.run("resume", "stops") == "mpijob.kubeflow.org/stops resumed\n"
    until(lambda: "its launcher waits for you" in shell.run("why", "stops"), "it is in debug mode")
    assert shell.run("logs", "stops") == ""
    shell.run("delete", "stops")


def test_a_program_in_the_foreground(shell: Shell) -> None:
    """Its output is stdout's, its exit code the command's; what `sh` reads is what was written."""
    program = ("sh", "-c", 'echo "$GREETING from $OMPI_COMM_WORLD_RANK, $(echo $$ | wc -l)"')
    found = shell.run("run", "none", "-n", "3", "--slots", "2", "--env", "GREETING=hello", "--rm", "--", *program)
    assert sorted(found.splitlines()) == [f"hello from {rank}, 1" for rank in range(3)]
    failing = shell.run("run", "none", "-n", "1", "--name", "ends", "--", "sh", "-c", "exit 4", code=4)
    assert "[ends] ends failed after" in failing
    assert cells(shell.run("list"), "ends")[1:3] == ["Failed", "ExitCode4"]
    shell.run("delete", "ends")


@pytest.mark.parametrize("removes", [False, True])
def test_ctrl_c_detaches_or_removes(shell: Shell, *, removes: bool) -> None:
    options = ["-n", "1", "--name", "goes-on", *(["--rm"] if removes else [])]
    program = ["sh", "-c", "echo begun; sleep 600"]
    process = shell.start("run", "none", *options, "--", *program, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    if removes:
        assert "mpijob.kubeflow.org/goes-on deleted" in errors
        assert "goes-on" not in shell.run("list")
        return
    assert "detached, and the job goes on: `kubectl-mpi attach goes-on`" in errors
    assert cells(shell.run("list"), "goes-on")[1] == "Running"
    assert shell.run("exec", "goes-on", "--", "hostname") != ""
    assert "exit code 5" in shell.run("exec", "goes-on", "--worker", "0", "--", "sh", "-c", "exit 5", code=5)
    shell.run("delete", "goes-on")


def test_an_outage_is_waited_for(shell: Shell, operated: Operated, tmp_path: Path) -> None:
    """Connections are reset, and for a while no new ones are accepted."""
    go = tmp_path / "go"
    program = ["sh", "-c", f"echo begun; while ! test -e {go}; do sleep 0.1; done; echo done"]
    following = shell.start("run", "none", "-n", "1", "--name", "lasts", "--", *program, stdout=PIPE, stderr=PIPE)
    assert following.stdout is not None
    assert following.stderr is not None
    assert following.stdout.readline() == "begun\n"
    watches = operated.cluster.stats()["requests"]["watch"]
    waiting = shell.start("wait", "lasts", stdout=PIPE)
    operated.cluster.until(lambda stats: stats["requests"]["watch"] > watches)
    operated.cluster.listen(on=False)
    operated.cluster.cut()
    line = ""
    while "trying again" not in line:
        line = following.stderr.readline()
        assert line
    operated.cluster.listen(on=True)
    go.touch()
    output, _ = following.communicate(timeout=60)
    assert following.returncode == 0
    assert output.endswith("done\n")
    assert "lasts succeeded" in waiting.communicate(timeout=60)[0]
    assert waiting.returncode == 0
    shell.run("delete", "lasts")


def test_a_run_is_shown_without_a_cluster(tmp_path: Path) -> None:
    nowhere = Shell(str(tmp_path / "none"))
    found = yaml.safe_load(nowhere.run("run", "img", "-n", "4", "--workers", "2", "--dry-run", "--", "pi"))
    assert found["spec"]["slotsPerWorker"] == 2
    (tmp_path / "template").write_text(json.dumps({**found, "spec": {**found["spec"], "mpiImplementation": "Intel"}}))
    template = ("-f", str(tmp_path / "template"))
    again = yaml.safe_load(nowhere.run("run", "img", "-n", "4", *template, "--dry-run", "--", "pi"))
    assert (again["spec"]["slotsPerWorker"], again["spec"]["mpiImplementation"]) == (2, "Intel")
    assert "no cluster is configured by" in nowhere.run("run", "img", "-n", "4", "--", "pi", code=3)


def test_files_are_checked_before_anything_is_created(shell: Shell, tmp_path: Path) -> None:
    wrong = yaml.safe_load(manifest("wrong", "true"))
    wrong["spec"]["slotsPerWorker"] = 0
    (tmp_path / "jobs.yaml").write_text(manifest("right", "true") + "---\n" + yaml.safe_dump(wrong))
    assert "job wrong: spec.slotsPerWorker: " in shell.run("submit", "-f", str(tmp_path / "jobs.yaml"), code=2)
    assert "right" not in shell.run("list")
    assert "is no MPIJob" in shell.run("submit", "-f", "-", stdin="{kind: Pod, metadata: {name: x}}", code=2)
    assert "is no YAML" in shell.run("submit", "-f", "-", stdin="{", code=2)
    assert "can't be read" in shell.run("submit", "-f", str(tmp_path / "none"), code=2)
    shell.run("submit", "-f", "-", stdin=manifest("twice", "true"))
    assert "already exists" in shell.run("submit", "-f", "-", stdin=manifest("twice", "true"), code=1)
    shell.run("delete", "twice")


def test_the_api_server_makes_a_name(foreign: Cluster) -> None:
    job = yaml.safe_load(manifest("", "true"))
    job["metadata"] = {"generateName": "made-"}
    created = Shell(foreign.kubeconfig()).run("submit", "-f", "-", stdin=yaml.safe_dump(job))
    assert re.fullmatch(r"mpijob\.kubeflow\.org/made-\w+ created\n", created)


def test_a_job_of_another_namespace_is_not_created_elsewhere(foreign: Cluster) -> None:
    """kubectl refuses it too if -n is given; without -n the job's own namespace holds."""
    client = Client(foreign)
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hpc"}})
    shell, job = Shell(foreign.kubeconfig()), yaml.safe_load(manifest("there", "true"))
    job["metadata"]["namespace"] = "hpc"
    refused = 'the namespace from the provided object "hpc" does not match the namespace "default"'
    assert refused in shell.run("submit", "-n", "default", "-f", "-", stdin=yaml.safe_dump(job), code=2)
    with MpiClient(kubeconfig=foreign.kubeconfig()) as python:
        with pytest.raises(ManifestError, match=refused):
            python.submit(job)
        with pytest.raises(NotFoundError):
            python.within("hpc").get("there")
        assert shell.run("submit", "-f", "-", stdin=yaml.safe_dump(job)) == "mpijob.kubeflow.org/there created\n"
        assert python.within("hpc").get("there").summary.namespace == "hpc"
        assert python.namespace == "default"


def test_a_job_is_converted_without_a_cluster(tmp_path: Path) -> None:
    nowhere = Shell(str(tmp_path / "none"))
    found = yaml.safe_load(nowhere.run("convert", "-f", "examples/t9k/pi.yaml", "--to", "v1"))
    assert found["apiVersion"] == "kubeflow.org/v1"
    assert "is no YAML" in nowhere.run("convert", "-f", "-", "--to", "v1", code=2, stdin="{")


def test_colour_is_for_terminals(shell: Shell) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("gaudy", "true"))
    shell.run("wait", "gaudy")
    assert re.search(r"\x1b\[32mSucceeded *\x1b\[0m", shell.on_terminal("list"))
    assert ESCAPE not in shell.on_terminal("list", NO_COLOR="1")
    assert shell.on_terminal("status", "gaudy", "--watch").count(f"{ESCAPE}H{ESCAPE}J") == 1
    assert re.fullmatch(r"\d\d:\d\d:\d\d Succeeded: gaudy succeeded.*\n", shell.run("status", "gaudy", "-w"))
    shell.run("delete", "gaudy")


def test_usage_and_version(shell: Shell) -> None:
    assert shell.run("--version") == f"kubectl-mpi {__version__}\n"
    assert "No such command 'lst'" in shell.run("lst", code=2)
    assert "must be NAME=VALUE" in shell.run("run", "img", "-n", "1", "--env", "x", "--", "pi", code=2)
    assert shell.run("list", "-n", "nothing-here") == ""


def test_missing_rights_and_servers(operated: Operated, tmp_path: Path) -> None:
    cluster = operated.cluster
    reader = Shell(cluster.kubeconfig(cluster.token("list pods")))
    assert 'cannot list resource "mpijobs"' in reader.run("list", code=5)
    stranger = Shell(cluster.kubeconfig("no such token"))
    assert "does not accept these credentials" in stranger.run("list", code=3)
    with open(cluster.kubeconfig(), encoding="utf-8") as file:
        config = json.load(file)
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    (tmp_path / "dead").write_text(json.dumps(config))
    assert "no answer from https://127.0.0.1:" in Shell(str(tmp_path / "dead")).run("list", code=3)
    assert "no cluster is configured by" in Shell(str(tmp_path / "none")).run("list", code=3)


def test_the_client_in_python(operated: Operated) -> None:
    with MpiClient(kubeconfig=operated.cluster.kubeconfig(), namespace="default") as client:
        made = client.submit(yaml.safe_load(manifest("py", "sh", "-c", "echo begun; sleep 600")))
        assert (made.name, made.workers, made.state) == ("py", 2, State.PENDING)
        running = client.wait("py", until=lambda status: status.state is State.RUNNING, timeout_s=60)
        assert [worker.ready for worker in running.workers] == [True, True]
        assert next(iter(client.logs("py", follow=True))) == "begun"
        with pytest.raises(WaitTimeoutError, match="not within 0 s: py runs"):
            client.wait("py", timeout_s=0)
        assert [job.name for job in client.list() if job.name == "py"] == ["py"]
        changes = client.changes("py")
        next(changes)
        client.delete("py")
        with pytest.raises(NotFoundError):
            list(changes)
    with (
        MpiClient(kubeconfig=operated.cluster.kubeconfig(operated.cluster.token("list pods"))) as client,
        pytest.raises(ForbiddenError),
    ):
        client.get("py")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without our operator."""
    with Cluster(tmp_path_factory.mktemp("foreign"), runs_pods=False) as cluster:
        yield cluster


_TRAINING = "training.kubeflow.org"
# By operator: the API version, and the labels that it puts on a pod of a role.
_OTHERS: dict[str, tuple[str, Any]] = {
    "mpi-operator v2beta1": (
        "v2beta1",
        lambda job, role: {
            f"{_TRAINING}/operator-name": "mpi-operator",
            f"{_TRAINING}/job-name": job,
            f"{_TRAINING}/job-role": role,
        },
    ),
    "training-operator v1": (
        "v1",
        lambda job, role: {
            f"{_TRAINING}/operator-name": "mpijob-controller",
            f"{_TRAINING}/job-name": job,
            f"{_TRAINING}/replica-type": role,
        },
    ),
    "mpi-operator v1": (
        "v1",
        lambda job, role: {"group-name": "kubeflow.org", "mpi-job-name": job, "mpi-job-role": role},
    ),
}


def launcher_of(client: Client, job: str) -> str:
    """The name of a job's launcher pod, "" while there is none."""
    names = [pod["metadata"]["name"] for pod in client.list("/api/v1/namespaces/default/pods")["items"]]
    return next((name for name in names if name.startswith(f"{job}-launcher")), "")


@pytest.mark.parametrize("operator", _OTHERS)
def test_jobs_of_kubeflows_own_operators(foreign: Cluster, operator: str) -> None:
    version, labels = _OTHERS[operator]
    name = re.sub(r"\W+", "-", operator)
    client, shell = Client(foreign), Shell(foreign.kubeconfig())
    job = yaml.safe_load(manifest(name, "true", version=version))
    del job["metadata"]["annotations"]
    made = client.create(job)
    owner = {"apiVersion": made["apiVersion"], "kind": "MPIJob", "name": name, "uid": made["metadata"]["uid"]}
    spec = {"containers": [{"name": "mpi", "image": "x"}]}
    pods = [(f"{name}-worker-{index}", "worker") for index in range(2)]
    if version == "v2beta1":  # its launcher is a batch Job
        metadata = {"name": f"{name}-launcher", "ownerReferences": [{**owner, "controller": True}]}
        template = {"metadata": {"labels": labels(name, "launcher")}, "spec": {**spec, "restartPolicy": "Never"}}
        client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
    else:
        pods.append((f"{name}-launcher", "launcher"))
    for pod, role in pods:
        metadata = {"name": pod, "labels": labels(name, role), "ownerReferences": [{**owner, "controller": True}]}
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    launcher = until(lambda: launcher_of(client, name), "the launcher's pod is there")
    foreign.set_state(f"{name}-worker-0", "ready")
    foreign.set_state(f"{name}-worker-1", "unschedulable")
    foreign.set_state(launcher, "ready")
    found = shell.run("why", name)
    assert f"1/2 ready · {name}-worker-1 unschedulable" in found
    assert "Ask for less" in found
    assert launcher in shell.run("status", name)
    if operator != "mpi-operator v1":  # its pods have no label that all jobs' pods have
        assert cells(shell.run("list"), name)[1:4] == ["Starting", "Unschedulable", "1/2"]


def test_a_cluster_without_any_operator(foreign: Cluster) -> None:
    shell = Shell(foreign.kubeconfig())
    shell.run("submit", "-f", "-", stdin=manifest("alone", "true"))
    assert "alone was just created" in shell.run("why", "alone")
    assert "not within 1 s: alone was just created" in shell.run("wait", "alone", "--timeout", "1", code=124)
