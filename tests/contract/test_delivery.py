"""Delivery as its own process against the stand-in API server: how each wait ends, with which code and which words."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any

import pytest

from agents.playground.cluster import Cluster
from delivery import exits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LABELS = {"training.kubeflow.org/job-name": "pi"}
MEASURED = """
import atexit, sys
def tell():
    with open("/proc/self/status") as status:
        sys.stdout.write(next(line for line in status if line.startswith("VmHWM")))
atexit.register(tell)
from delivery.cli import main
main()
"""


class Launcher:
    """The launcher pod's init container: its files, its environment, and delivery in it."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kube = folder / "kube"
        self.hostfile = folder / "hostfile"
        self.log = folder / "termination-log"
        self.log.touch()
        tools = folder / "tools"
        tools.mkdir()
        (tools / "rshagent").write_text("#!/bin/sh\n")
        (tools / "rshagent").chmod(0o755)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOSTNAME": "pi-launcher",
            "TARGET_DIR": str(self.kube),
            "MPI_AGENT_HOSTFILE": str(self.hostfile),
            "MPI_AGENT_TERMINATION_LOG": str(self.log),
            "MPI_AGENT_TOOLS": str(tools),
        }
        self._process: subprocess.Popen[str] | None = None
        self.told = ""

    def start(self, *arguments: str, environ: Mapping[str, str] | None = None, code: str | None = None) -> None:
        """Start delivery, in the cluster unless `environ` says otherwise."""
        where = self.cluster.environ() if environ is None else environ
        self._process = subprocess.Popen(
            [sys.executable, *(["-m", "delivery"] if code is None else ["-c", code]), *arguments],
            env={**self.environ, **where},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def until_told(self, words: str) -> str:
        """Return the next line on stderr that has `words` in it."""
        stderr = self.process.stderr
        assert stderr is not None
        for line in stderr:
            self.told += line
            if words in line:
                return line
        pytest.fail(f"ended without {words!r}; it told:\n{self.told}")

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        out, err = self.process.communicate()
        self.told += err
        self.out = out
        assert "Traceback" not in self.told
        return self.process.returncode

    def run(self, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
        self.start(*arguments, environ=environ)
        return self.end()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def last_line(self) -> str:
        return self.told.splitlines()[-1]

    def hosts(self) -> list[str]:
        """The hosts file's lines after the first, which is this machine's own."""
        return (self.kube / "hosts").read_text().splitlines()[1:]

    def workers(self, count: int, **fields: Any) -> list[str]:
        """Create workers and a hostfile that names them."""
        names = self.cluster.create_workers(count, "pi-worker", labels=LABELS, **fields)
        self.hostfile.write_text("".join(f"{name} slots=1\n" for name in names))
        return names


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as started:
        yield started


@pytest.fixture
def launcher(tmp_path: Path, cluster: Cluster) -> Iterator[Launcher]:
    (tmp_path / "launcher").mkdir()
    cluster.create_pod("pi-launcher", labels=LABELS, steps=((0, "initializing"),))
    made = Launcher(tmp_path / "launcher", cluster)
    yield made
    made.close()


PULLING = ((0.0, "pulling"),)


def test_ready_workers_are_written_down_and_the_client_is_in_place(launcher: Launcher) -> None:
    names = launcher.workers(3)
    assert launcher.run("-alsologtostderr") == exits.READY
    assert launcher.hosts() == [f"{launcher.cluster.pod_address(name)}\t{name}" for name in names]
    assert (launcher.kube / "rshagent").stat().st_mode & 0o777 == 0o755
    assert launcher.last_line.startswith("3/3 ready")
    assert launcher.log.read_text() == ""


def test_again_is_harmless(launcher: Launcher) -> None:
    launcher.workers(2)
    assert launcher.run() == exits.READY
    before = sorted((path.name, path.read_bytes()) for path in launcher.kube.iterdir())
    assert launcher.run() == exits.READY
    assert sorted((path.name, path.read_bytes()) for path in launcher.kube.iterdir()) == before


def test_workers_that_come_one_after_another(launcher: Launcher) -> None:
    names = launcher.workers(8, steps=PULLING)
    launcher.start()
    launcher.until_told("0/8 ready · pi-worker-0, pi-worker-1 and 6 more pulling image")
    for name in names[:-1]:
        launcher.cluster.set_state(name, "ready")
    launcher.until_told("7/8 ready · pi-worker-7 pulling image")
    launcher.cluster.set_state(names[-1], "ready")
    assert launcher.end() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == names


def test_any_number_of_workers_costs_one_look_at_the_own_pod_one_list_and_one_watch(launcher: Launcher) -> None:
    names = launcher.workers(30, steps=PULLING)
    launcher.cluster.reset_stats()
    launcher.start()
    launcher.until_told(
        "waiting for 30 workers, among the pods of namespace default with training.kubeflow.org/job-name=pi"
    )
    launcher.until_told("pulling image")
    for name in names:
        launcher.cluster.set_state(name, "ready")
    assert launcher.end() == exits.READY
    requests = launcher.cluster.stats()["requests"]
    assert {kind: requests.get(kind) for kind in ("get", "list", "watch")} == {"get": 1, "list": 1, "watch": 1}


def test_worker_that_does_not_stay_ready_is_waited_for_again(launcher: Launcher) -> None:
    first, second = launcher.workers(2, steps=PULLING)
    launcher.start()
    launcher.cluster.set_state(first, "ready")
    launcher.until_told("1/2 ready")
    launcher.cluster.set_state(first, "crash-loop")
    launcher.until_told("0/2 ready · pi-worker-0 container worker crashes again and again")
    launcher.cluster.set_state(second, "ready")
    launcher.until_told("1/2 ready · pi-worker-0 container worker crashes again and again")
    launcher.cluster.set_state(first, "ready")
    assert launcher.end() == exits.READY


def test_replaced_worker_is_written_down_with_its_new_address(launcher: Launcher) -> None:
    first, second = launcher.workers(2, steps=PULLING)
    launcher.cluster.set_state(first, "ready")
    old = launcher.cluster.pod_address(first)
    launcher.start()
    launcher.until_told("1/2 ready")
    launcher.cluster.delete_pod(first)
    launcher.until_told("0/2 ready · pi-worker-0 gone")
    launcher.cluster.create_pod(first, labels=LABELS)
    launcher.until_told("1/2 ready · pi-worker-1 pulling image")
    launcher.cluster.set_state(second, "ready")
    assert launcher.end() == exits.READY
    assert launcher.cluster.pod_address(first) != old
    assert launcher.hosts()[0] == f"{launcher.cluster.pod_address(first)}\t{first}"


ENDS = {
    "invalid-image-name": (exits.CANNOT_START, "pi-worker-1 container worker can never start (InvalidImageName)"),
    "failed": (exits.ENDED, "pi-worker-1 failed and not replaced within 0 s: container worker ended with 1"),
    "oom-killed": (exits.ENDED, "container worker ran out of memory (OOMKilled)"),
    "succeeded": (exits.ENDED, "pi-worker-1 ended by itself (Succeeded)"),
    "evicted": (exits.ENDED, "pi-worker-1 evicted and not replaced within 0 s: The node was low on resource"),
    "image-pull-backoff": (exits.GRACE_OVER, "pi-worker-1 container worker can't get its image (ImagePullBackOff)"),
    "err-image-pull": (exits.GRACE_OVER, "(ErrImagePull)"),
    "config-error": (exits.GRACE_OVER, "(CreateContainerConfigError) for 0 s, longer than the grace: secret"),
    "run-error": (exits.GRACE_OVER, "(RunContainerError)"),
    "crash-loop": (exits.GRACE_OVER, "crashes again and again (exit 1)"),
    "unknown": (exits.GRACE_OVER, "on a node that does not report (NodeLost)"),
    "unschedulable": (exits.TIMED_OUT, "1/2 ready · pi-worker-1 unschedulable"),
    "running": (exits.TIMED_OUT, "1/2 ready · pi-worker-1 running, container worker not ready yet"),
}


@pytest.mark.parametrize("state", ENDS)
def test_state_that_lasts_ends_the_wait_with_its_code_and_reason(launcher: Launcher, state: str) -> None:
    """The limits are short, and the time limit as a whole too where there is no other."""
    _, second = launcher.workers(2)
    launcher.cluster.set_state(second, state)
    code, words = ENDS[state]
    limits = ["--grace", "200ms", "--replacement", "200ms"]
    assert launcher.run(*limits, *(["--timeout", "1s"] if code == exits.TIMED_OUT else [])) == code
    assert words in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"
    assert not (launcher.kube / "hosts").exists()


def test_worker_that_is_gone_and_not_replaced(launcher: Launcher) -> None:
    first, _ = launcher.workers(2, steps=PULLING)
    launcher.start("--replacement", "0.2")
    launcher.until_told("0/2 ready · pi-worker-0, pi-worker-1 pulling image")
    launcher.cluster.delete_pod(first)
    assert launcher.end() == exits.GONE
    assert "pi-worker-0 gone and not replaced" in launcher.last_line


HEALS = {
    "image-pull-backoff": "can't get its image",
    "config-error": "can't be created",
    "crash-loop": "crashes again and again",
    "unschedulable": "unschedulable",
    "failed": "failed",
}


@pytest.mark.parametrize("state", HEALS)
def test_trouble_that_heals_does_not_end_the_wait(launcher: Launcher, state: str) -> None:
    (only,) = launcher.workers(1)
    launcher.cluster.set_state(only, state)
    launcher.start()
    launcher.until_told(HEALS[state])
    if state == "failed":
        launcher.cluster.replace_pod(only, labels=LABELS)
    else:
        launcher.cluster.set_state(only, "ready")
    assert launcher.end() == exits.READY


def test_worker_that_is_not_created_yet(launcher: Launcher) -> None:
    launcher.hostfile.write_text("pi-worker-0:1\n")
    launcher.start()
    launcher.until_told("0/1 ready · pi-worker-0 not created yet")
    launcher.workers(1)
    assert launcher.end() == exits.READY


def replace(hostfile: Path, text: str) -> None:
    """Write as a ConfigMap's volume does: another file in its place."""
    fresh = hostfile.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(hostfile)


def test_worker_that_the_hostfile_no_longer_has_is_not_waited_for(launcher: Launcher) -> None:
    names = launcher.workers(3)
    launcher.cluster.set_state(names[0], "running")
    launcher.cluster.delete_pod(names[2])
    launcher.start()
    launcher.until_told("1/3 ready")
    replace(launcher.hostfile, "".join(f"{name} slots=1\n" for name in names[:2]))
    launcher.until_told("the hostfile has changed: waiting for 2 workers")
    launcher.cluster.set_state(names[0], "ready")
    assert launcher.end() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == names[:2]
    assert launcher.last_line.startswith("2/2 ready after")


def test_worker_that_comes_into_the_hostfile_is_waited_for_too(launcher: Launcher) -> None:
    names = launcher.workers(1)
    launcher.cluster.set_state(names[0], "running")
    launcher.start()
    launcher.until_told("0/1 ready")
    launcher.hostfile.unlink()
    replace(launcher.hostfile, "pi-worker-0\npi-worker-1\n")
    launcher.until_told("the hostfile has changed: waiting for 2 workers")
    launcher.cluster.set_state(names[0], "ready")
    launcher.until_told("1/2 ready · pi-worker-1 not created yet")
    launcher.cluster.create_pod("pi-worker-1", labels=LABELS)
    assert launcher.end() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == ["pi-worker-0", "pi-worker-1"]


def test_hosts_of_every_form_are_found(launcher: Launcher) -> None:
    names = launcher.workers(4)
    launcher.cluster.create_pod("pi-worker-4", labels=LABELS, address="10.9.8.7")
    launcher.hostfile.write_text(
        "# job\n\npi-launcher slots=1\nuser@pi-worker-0:2\npi-worker-1.pi.default.svc slots=1\n10.9.8.7:1\n"
        "default/pi-worker-2 slots=4\r\n\tpi-worker-3\n"
    )
    assert launcher.run() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == [*names, "pi-worker-4"]


def test_forbidden_names_the_verb_and_the_rule(launcher: Launcher) -> None:
    launcher.workers(1)
    token = launcher.cluster.token("get pods")
    assert launcher.run(environ=launcher.cluster.environ(token)) == exits.API_REFUSED
    assert "cannot list" in launcher.last_line
    assert '{apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"]}' in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_own_pod_need_not_be_readable(launcher: Launcher) -> None:
    launcher.workers(2)
    token = launcher.cluster.token("list pods", "watch pods")
    assert launcher.run(environ=launcher.cluster.environ(token)) == exits.READY
    assert "waiting for 2 workers, among the pods of namespace default\n" in launcher.told


PASSING: dict[str, dict[str, Any]] = {
    "forbidden until the Role is known": {"kind": "http", "on": "list", "status": 403, "times": 2},
    "token not known yet": {"kind": "http", "on": "list", "status": 401, "times": 2},
    "server error": {"kind": "http", "on": "list", "status": 500, "times": 3},
    "too many requests": {"kind": "http", "on": "list", "status": 429, "times": 1, "retry_after_s": 1},
    "list is dropped": {"kind": "drop-before-upgrade", "on": "list", "times": 2},
    "watch is dropped": {"kind": "drop-before-upgrade", "on": "watch", "times": 2},
    "watch is refused": {"kind": "http", "on": "watch", "status": 500, "times": 2},
    "watch is too old": {"kind": "gone", "on": "watch", "times": 2},
    "own pod can't be read now": {"kind": "http", "on": "get", "status": 500, "times": 2},
    "own pod is dropped": {"kind": "drop-before-upgrade", "on": "get", "times": 1},
}


@pytest.mark.parametrize("fault", PASSING)
def test_api_trouble_that_passes_is_told_and_survived(launcher: Launcher, fault: str) -> None:
    (only,) = launcher.workers(1, steps=PULLING)
    launcher.cluster.fault(**PASSING[fault])
    launcher.start()
    launcher.until_told("trying again")
    launcher.cluster.set_state(only, "ready")
    assert launcher.end() == exits.READY


@pytest.mark.parametrize("what", ["cut", "end", "expire"])
def test_watch_that_breaks_is_taken_up_again(launcher: Launcher, what: str) -> None:
    (only,) = launcher.workers(1, steps=PULLING)
    launcher.start()
    launcher.cluster.until(lambda stats: stats["requests"].get("watch"))
    launcher.until_told("pulling image")
    assert launcher.cluster.watches(what) == 1
    launcher.cluster.set_state(only, "ready")
    assert launcher.end() == exits.READY
    assert launcher.cluster.stats()["requests"]["watch"] <= 3  # taken up again, not asked for in a loop


def test_garbage_in_the_watch_is_survived(launcher: Launcher) -> None:
    (only,) = launcher.workers(1, steps=PULLING)
    launcher.start()
    launcher.cluster.until(lambda stats: stats["requests"].get("watch"))
    launcher.until_told("pulling image")
    launcher.cluster.watches("raw", b"{{{ this is no event\n")
    launcher.until_told("trying again")
    launcher.cluster.set_state(only, "ready")
    assert launcher.end() == exits.READY


def test_api_server_that_is_down_is_told_and_waited_for(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with Cluster(tmp_path / "cluster", port=port) as cluster:
        environ = cluster.environ("a-token")
    (tmp_path / "launcher").mkdir()
    launcher = Launcher(tmp_path / "launcher", cluster)
    launcher.hostfile.write_text("pi-worker-0\n")
    try:
        launcher.start(environ=environ)
        launcher.until_told("the API server can't be reached: Connection refused; trying again")
        with Cluster(tmp_path / "cluster", port=port) as again:
            again.token(token="a-token")
            with open(again.ca, encoding="ascii") as ca:
                authority = ca.read()
            with open(f"{environ['MPI_AGENT_SERVICE_ACCOUNT']}/ca.crt", "w", encoding="ascii") as ca:
                ca.write(authority)
            again.create_pod("pi-worker-0")
            assert launcher.end() == exits.READY
        assert "the API server answers again" in launcher.told
    finally:
        launcher.close()


def stranger(cluster: Cluster, folder: Path) -> dict[str, str]:
    """The environment of a pod whose CA is another cluster's."""
    with Cluster(folder / "another") as another:
        environ = cluster.environ()
        with open(another.ca, encoding="ascii") as ca:
            authority = ca.read()
    with open(f"{environ['MPI_AGENT_SERVICE_ACCOUNT']}/ca.crt", "w", encoding="ascii") as ca:
        ca.write(authority)
    return environ


def test_server_that_is_not_trusted(launcher: Launcher, tmp_path: Path) -> None:
    launcher.workers(1)
    assert launcher.run(environ=stranger(launcher.cluster, tmp_path)) == exits.API_SETUP
    assert "certificate is not to be trusted" in launcher.last_line


SETUPS = {
    "nothing is set": ({}, "no API server is known"),
    "kubeconfig is missing": ({"KUBECONFIG": "/nowhere/config"}, "/nowhere/config can't be read"),
    "token is missing": (
        {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "MPI_AGENT_SERVICE_ACCOUNT": "/nowhere"},
        "the token can't be read from /nowhere/token",
    ),
}


@pytest.mark.parametrize("setup", SETUPS)
def test_api_that_can_not_be_set_up(launcher: Launcher, setup: str) -> None:
    launcher.workers(1)
    environ, words = SETUPS[setup]
    assert launcher.run(environ=environ) == exits.API_SETUP
    assert words in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_kubeconfig_and_namespace_as_kubectl_delivery_takes_them(launcher: Launcher) -> None:
    launcher.cluster.create_pod("pi-worker-0", namespace="science")
    launcher.hostfile.write_text("pi-worker-0\n")
    config = launcher.cluster.kubeconfig()
    assert launcher.run("-kubeConfig", config, "-namespace=science", environ={}) == exits.READY
    assert launcher.run(environ={"KUBECONFIG": config, "NAMESPACE": "science"}) == exits.READY
    assert launcher.run("--timeout", "1", environ={"KUBECONFIG": config}) == exits.TIMED_OUT


def test_hostfile_that_is_missing_or_none(launcher: Launcher) -> None:
    assert launcher.run() == exits.HOSTFILE
    assert "hostfile can't be read: No such file or directory" in launcher.last_line
    launcher.hostfile.write_bytes(b"\x7fELF\x00\x00\n")
    assert launcher.run() == exits.HOSTFILE


def test_job_without_workers_needs_no_api(launcher: Launcher) -> None:
    launcher.hostfile.write_text("pi-launcher slots=1\n")
    assert launcher.run(environ={}) == exits.READY
    assert "names no worker" in launcher.told
    assert launcher.hosts() == []


def test_tools_that_are_missing_or_have_no_place(launcher: Launcher) -> None:
    launcher.workers(1)
    assert launcher.run("no-such-tool") == exits.TOOL_MISSING
    launcher.kube.write_text("a file in the way")
    assert launcher.run() == exits.TARGET
    assert "can't be written" in launcher.last_line


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["--timeout"], ["--timeout", "soon"], ["/a:/b"]])
def test_wrong_usage_is_one_line(launcher: Launcher, arguments: list[str]) -> None:
    launcher.workers(1)
    assert launcher.run(*arguments) == exits.USAGE
    assert len(launcher.told.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_at_once_with_a_line(launcher: Launcher, number: signal.Signals) -> None:
    launcher.workers(1, steps=PULLING)
    launcher.start()
    launcher.until_told("0/1 ready · pi-worker-0 pulling image")
    launcher.process.send_signal(number)
    assert launcher.end() == 128 + number
    assert f"stopped by {number.name} while waiting: 0/1 ready · pi-worker-0 pulling image" in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_terminal_has_a_live_line(launcher: Launcher) -> None:
    (only,) = launcher.workers(1, steps=PULLING)
    ours, theirs = pty.openpty()
    environ = {**launcher.environ, **launcher.cluster.environ(), "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-m", "delivery"], env=environ, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as screen:
        seen = read_until(screen, b"0/1 ready")
        launcher.cluster.set_state(only, "ready")
        seen += read_until(screen, b"1/1 ready")
        assert process.wait() == exits.READY
    assert b"\r\x1b[K1/1 ready" in seen


def read_until(screen: IO[bytes], words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += screen.read(4096)
    return seen


def test_thousand_workers_fit_into_40_mib(launcher: Launcher) -> None:
    """Each pod has as many fields, and is as large, as real ones are (managedFields, volumes, environment)."""
    launcher.workers(1000, annotations={f"field-{number}": "x" * 30 for number in range(200)})
    launcher.start(code=MEASURED)
    assert launcher.end() == exits.READY
    assert len(launcher.hosts()) == 1000
    assert int(launcher.out.split()[1]) < 40 * 1024
