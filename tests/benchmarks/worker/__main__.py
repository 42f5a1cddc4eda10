"""`python -m tests.benchmarks.worker`: what the worker agent costs while nothing happens (docs/worker.md)."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from tests.benchmarks import command
from tests.benchmarks.measure import BenchmarkError, cpu_s, rss_mib
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.command import Say

_SSHD = "/usr/sbin/sshd"
_START_S = 10.0
_PROBE_S = 1.0
"""Between two questions for /readyz: the kubelet's, as the operator sets them."""


class Case(NamedTuple):
    """What the agent has to look after."""

    name: str
    has_sshd: bool
    processes: int | None = None
    """In a process namespace that it shares; None: it has its own."""


CASES = (
    Case("sshd, keys and orders", has_sshd=True),
    Case("orders and a shared namespace of 100 processes", has_sshd=False, processes=100),
)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.worker", description="What the agent costs.")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="N", help="how long each case (%(default)s)")
    seconds = parser.parse_args().seconds

    def measure(say: Say) -> command.Table:
        rows = [("looks after", "RSS, MiB", "CPU, ms a second")]
        for case in CASES:
            say(case.name)
            rss, cpu = _measured(case, seconds)
            rows.append((case.name, f"{rss:.1f}", f"{cpu * 1000:.2f}"))
        return command.Table(rows)

    return command.run("worker", lambda: f"Python {sys.version.split()[0]}", measure)


def _measured(case: Case, seconds: float) -> tuple[float, float]:
    """Return MiB, and CPU seconds a second, of an agent that has settled."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        port, environ = free_port(), {"PATH": os.environ["PATH"], "MPI_WORKER_ORDERS": f"{folder}/orders/order"}
        os.makedirs(f"{folder}/orders")
        if case.has_sshd:
            ssh_port = free_port()
            environ |= {"MPI_SSH_PORTS": str(ssh_port), "MPI_SSH_KEYS": folder, "MPI_SSH_VOLUME": folder}
            stack.enter_context(_sshd(folder, ssh_port))
        inside = stack.enter_context(_namespace(case.processes)) if case.processes is not None else []
        argv = [*inside, sys.executable, "-m", "agents.worker"]
        agent = stack.enter_context(_process(argv, {**environ, "MPI_WORKER_PORT": str(port)}))
        _until_ready(port)
        pid = _child(agent.pid) if inside else agent.pid
        time.sleep(3.0)
        before, began = cpu_s(pid), time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(_PROBE_S)
            _ask(port)
        return rss_mib(pid), (cpu_s(pid) - before) / (time.monotonic() - began)


@contextlib.contextmanager
def _process(argv: list[str], environ: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _sshd(folder: str, port: int) -> Iterator[None]:
    if not os.path.exists(_SSHD):
        raise BenchmarkError(f"{_SSHD} is missing: apt-get install openssh-server")
    key = f"{folder}/key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    with _process([_SSHD, "-D", "-f", "/dev/null", "-h", key, "-p", str(port), "-o", f"PidFile={folder}/pid"]):
        yield


@contextlib.contextmanager
def _namespace(processes: int) -> Iterator[list[str]]:
    """Make a process namespace as a pod's, whose first process is none of ours; give the words to enter it by."""
    if not shutil.which("nsenter"):
        raise BenchmarkError("nsenter is missing (util-linux)")
    sleeps = "".join("sleep inf & " for _ in range(processes - 2))
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    with _process(
        ["unshare", *mapped, "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", f"{sleeps}wait"]
    ) as outer:
        end = time.monotonic() + _START_S
        while not (pid := _child(outer.pid)):
            if outer.poll() is not None or time.monotonic() > end:
                raise BenchmarkError("no process namespace can be made here")
            time.sleep(0.05)
        user = ["--user", "--preserve-credentials"] if mapped else []
        yield ["nsenter", "--target", str(pid), *user, "--pid", "--mount"]


def _child(pid: int) -> int:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int((file.read().split() or ["0"])[0])


def _ask(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_START_S) as answer:
            return int(answer.status) == 200
    except URLError:
        return False


def _until_ready(port: int) -> None:
    end = time.monotonic() + _START_S
    while not _ask(port):
        if time.monotonic() > end:
            raise BenchmarkError(f"the agent was not ready within {_START_S:g} s")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
