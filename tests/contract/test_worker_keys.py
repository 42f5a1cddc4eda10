"""The worker agent beside a real sshd, in pods of their own: rotated keys, sshd's death, what launches by ssh leave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import DEADLINE_S
from ssh_pods import RUN, Pod, Pods, helpers, needs_pods, pods
from worker_running import Mounted, Worker, child_of, inside, running, with_setting

from tests.keys import write_keys
from tests.privileges import NO_CAPABILITIES
from tests.processes import is_alive
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["helpers", "pods"]
pytestmark = needs_pods

HERE = "127.0.0.1"


class Secret(Mounted):
    """The Secret of a pod's job, as the kubelet mounts it."""

    def __init__(self, pod: Pod) -> None:
        shutil.rmtree(pod.keys)
        super().__init__(Path(pod.keys))
        self.pod = pod

    def rotate(self, folder: Path) -> None:
        """Swap the pair for a new one."""
        folder.mkdir()
        self.write(**{name: key.decode() for name, key in write_keys(str(folder)).items()})


@pytest.fixture
def secret(pods: Pods, tmp_path: Path) -> Secret:
    secret = Secret(pods.unprepared())
    secret.rotate(tmp_path / "first")
    secret.pod.prepare()
    secret.pod.open()
    return secret


@pytest.fixture
def pod(secret: Secret) -> Pod:
    """A worker whose keys are those of `secret`."""
    return secret.pod


def environment(pod: Pod) -> dict[str, str]:
    return {
        "MPI_SSH_KEYS": pod.keys,
        "MPI_SSH_VOLUME": pod.volume,
        "MPI_SSH_PORTS": "2222",
        "MPI_SSH_ROLE": "worker",
        "MPI_AGENT_TOOLS": os.path.join(pod.folder, "tools"),
    }


@pytest.fixture
def worker(pod: Pod, tmp_path: Path) -> Iterator[Worker]:
    """The agent in a process namespace of its own, and in the pod's network."""
    network = ["nsenter", "--target", pod.pid, "--net", "unshare", "--pid", "--fork", "--mount-proc"]
    slow = with_setting("sshd_monitor", "RESTART_S", 3.0)  # an sshd that restarts may be held up
    with running(tmp_path, inside=[*network, *NO_CAPABILITIES], program=slow, **environment(pod)) as worker:
        until(lambda: worker.ask_socket("/healthz")[0] == 200, "it answers")
        yield worker


def until_ready(worker: Worker) -> None:
    until(lambda: worker.ask_socket("/readyz")[0] == 200, "sshd answers")


def test_rotated_keys_reach_an_sshd_that_runs(pod: Pod, secret: Secret, worker: Worker, tmp_path: Path) -> None:
    pod.serve()
    until_ready(worker)
    session = subprocess.Popen(
        pod.words("ssh", "-F", f"{RUN}/ssh_config", HERE, "echo started; cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert session.stdout is not None
    assert session.stdout.readline() == b"started\n"
    shutil.copy(f"{pod.volume}/run/identity", f"{pod.folder}/old")
    secret.rotate(tmp_path / "second")
    worker.until_said("the keys in the Secret have changed: new connections use them")
    until(lambda: pod.ssh(HERE, "true").returncode == 0, "sshd has the new host key and lets the new key in")
    # sshd restarts meanwhile: what it reads at each connection came first.
    until(lambda: b"Permission denied" in pod.ssh_with(f"{pod.folder}/old").stderr, "the old key is refused")
    assert session.communicate(b"still here", DEADLINE_S)[0] == b"still here", "what runs keeps running"
    assert 'mpi_worker_key_rotations_total{result="done"} 1' in worker.ask_socket("/metrics")[1]
    assert "PRIVATE" not in worker.log()


def test_it_sees_the_end_of_an_sshd_whose_processes_it_shares(pod: Pod, tmp_path: Path) -> None:
    shared = [*inside(int(pod.pid)), *NO_CAPABILITIES]
    with running(tmp_path, inside=shared, **environment(pod)) as worker:
        sshd = pod.serve()
        until_ready(worker)
        os.kill(child_of(sshd.pid), signal.SIGKILL)
        line = worker.until_said("sshd is gone from port 2222")
        assert "has ended: it was killed or crashed (its pid file is still there)" in line
        assert worker.ask_socket("/readyz") == (503, "sshd has ended\n")
        pod.serve()
        worker.until_said("sshd answers again at port 2222")


@pytest.mark.parametrize("restrictions", [[], NO_CAPABILITIES], ids=["can read environments", "restricted"])
def test_what_a_launch_by_ssh_has_left_is_ended(pod: Pod, tmp_path: Path, restrictions: list[str]) -> None:
    orders = Mounted(tmp_path / "orders")
    orders.write(order="debug")
    shared = [*inside(int(pod.pid)), *restrictions]
    text = "sleep 1000 >/dev/null 2>&1 & echo $!; setsid sleep 1000 >/dev/null 2>&1 & echo $!; read end"
    with running(tmp_path, inside=shared, MPI_WORKER_GRACE="0s", **environment(pod)) as worker:
        pod.serve()
        session = subprocess.Popen(
            pod.words("ssh", "-F", f"{RUN}/ssh_config", HERE, text), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert session.stdout is not None
        left, daemon = (outside(pod, int(session.stdout.readline())) for _ in range(2))
        until_ready(worker)
        orders.write(order="run")
        worker.until_said("order: run")
        worker.processes()  # it answers after its look: the processes are known as the session's
        assert is_alive(left)
        session.communicate(b"\n", DEADLINE_S)
        orders.write(order="debug")
        until(lambda: worker.log().count("order: debug") == 2, "the order is taken")
        assert is_alive(left)
        orders.write(order="")
        until(lambda: not is_alive(left), "the orphan has ended")
        assert is_alive(daemon), "who leads a session of its own means to stay"
        denied = worker.processes()["denied"]["environment"]
        assert (denied > 0) == bool(restrictions)


def outside(pod: Pod, pid: int) -> int:
    """Return the id outside of a process of a pod."""
    for found in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{found}/ns/pid") != os.readlink(f"/proc/{pod.pid}/ns/pid"):
                continue
            with open(f"/proc/{found}/status", encoding="utf-8") as file:
                ids = next(line for line in file if line.startswith("NSpid:")).split()
        except OSError:
            continue
        if ids[-1] == str(pid):
            return int(found)
    raise AssertionError(pid)


def test_an_sshd_that_reads_its_keys_again_has_not_ended(pod: Pod, worker: Worker) -> None:
    sshd = pod.serve()
    until_ready(worker)
    os.kill(child_of(sshd.pid), signal.SIGHUP)
    pod.wait_for("Received SIGHUP; restarting", sshd)
    until(lambda: pod.ssh(HERE, "true").returncode == 0, "it serves again")
    until_ready(worker)
    assert "sshd is gone" not in worker.log()
