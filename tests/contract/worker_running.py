"""The worker agent as it runs in a pod: the real command, a real sshd, folders as the kubelet mounts them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

import pytest
from running import DEADLINE_S, ROOT

from tests.ports import free_port
from tests.waiting import until
from tests.web import get

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


PROGRAM = ("-m", "agents.worker")


def with_setting(module: str, name: str, seconds: float) -> tuple[str, str]:
    """Return a program for `running`: the agent with another of its own periods, for what a busy machine may miss."""
    words = f"from agents.worker import cli, {module}; {module}.{name} = {seconds}; raise SystemExit(cli.main())"
    return "-c", words


class Worker:
    """An `mpi-worker` and what it says."""

    def __init__(
        self, folder: Path, *, inside: Sequence[str] = (), program: Sequence[str] = PROGRAM, **environ: str
    ) -> None:
        self.folder = folder
        self._inside = inside
        self._program = program
        self.socket = str(folder / "worker.sock")
        self.port = free_port()
        self.environ = {
            "PATH": os.environ["PATH"],
            "MPI_WORKER_PORT": str(self.port),
            "MPI_WORKER_SOCKET": self.socket,
            "MPI_WORKER_ORDERS": str(folder / "orders" / "order"),
            **environ,
        }
        self._log = folder / "worker.log"
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(self.command(), env=self.environ, cwd=ROOT, stderr=log, stdout=log)

    def command(self) -> list[str]:
        """Return what is run."""
        return [*self._inside, sys.executable, *self._program]

    def log(self) -> str:
        """Return what was said."""
        return self._log.read_text()

    def ask(self, path: str) -> tuple[int, str]:
        """Return the code and the text of an answer; 0 where nobody answers."""
        try:
            return get(f"http://127.0.0.1:{self.port}{path}")
        except (URLError, ConnectionError):  # nobody listens, or has ceased to in the meantime
            return 0, ""

    def ask_socket(self, path: str) -> tuple[int, str]:
        """Ask by the Unix socket; 0 where nobody answers there."""
        connection = HTTPConnection("localhost", timeout=DEADLINE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        with contextlib.closing(connection):
            try:
                connection.sock.connect(self.socket)
            except OSError:
                return 0, ""
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def processes(self) -> Any:
        """Return what the Unix socket tells, once it is served."""
        until(lambda: self.ask_socket("/healthz")[0] == 200, "the socket is served")
        code, text = self.ask_socket("/processes")
        assert code == 200
        return json.loads(text)

    def until(self, path: str, code: int, text: str = "") -> str:
        """Wait until a path answers so; return its text."""
        found = ""

        def answers() -> bool:
            nonlocal found
            assert self.process.poll() is None, self.log()
            given, found = self.ask(path)
            return given == code and text in found

        until(answers, f"{path} answers {code} {text}")
        return found

    def until_said(self, words: str) -> str:
        """Wait for words in the log; return their line."""
        until(lambda: words in self.log(), f"{words!a} is said", DEADLINE_S)
        return next(line for line in self.log().splitlines() if words in line)

    def end(self) -> int:
        """End it as the kubelet does; return its exit code."""
        if self.process.poll() is None:
            os.kill(child_of(self.process.pid) or self.process.pid, signal.SIGTERM)
        return self.process.wait(DEADLINE_S)


@contextlib.contextmanager
def running(
    folder: Path, *, inside: Sequence[str] = (), program: Sequence[str] = PROGRAM, **environ: str
) -> Iterator[Worker]:
    """Run a worker agent; it has to end well."""
    worker = Worker(folder, inside=inside, program=program, **environ)
    try:
        yield worker
        assert worker.end() == 0, worker.log()
        assert "internal error" not in worker.log()
    finally:
        worker.process.kill()
        worker.process.wait()


class Mounted:
    """A folder as the kubelet's AtomicWriter keeps it: the files are links through `..data`, which is swapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.swaps = 0
        path.mkdir()

    def write(self, **files: str) -> None:
        """Swap all files for these (pkg/volume/util/atomic_writer.go)."""
        self.swaps += 1
        before = self.path / "..data"
        old = os.readlink(before) if before.is_symlink() else ""
        new = self.path / f"..2026_{self.swaps}"
        new.mkdir()
        for name, content in files.items():
            (new / name).write_text(content)
        link = self.path / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(before)
        for name in files:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        if old:
            for path in (self.path / old).iterdir():
                path.unlink()
            (self.path / old).rmdir()


class Namespace:
    """A process namespace as that of a pod that shares it: its first process belongs to none of the containers."""

    def __init__(self) -> None:
        reaps = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); sys.stdin.read()"
        self._first = subprocess.Popen(
            ["unshare", *USER, "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-I", "-c", reaps],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: child_of(self._first.pid), "the namespace has its first process")
        self._started: list[subprocess.Popen[bytes]] = []

    def inside(self) -> list[str]:
        """Return the words before a command to run there, as the runtime starts a container's."""
        return inside(child_of(self._first.pid))

    def start(self, *argv: str, **environ: str) -> int:
        """Start a process that leads its session, as an exec does; return its id outside, once it has run execve."""
        words = [*self.inside(), "setsid", *argv]
        process = subprocess.Popen(words, env={"PATH": os.environ["PATH"], **environ}, stdout=subprocess.PIPE)
        self._started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        return child_of(process.pid)

    def close(self) -> None:
        """End all that is in it."""
        assert self._first.stdin is not None
        self._first.stdin.close()
        self._first.wait(DEADLINE_S)
        for process in self._started:
            process.wait(DEADLINE_S)
            assert process.stdout is not None
            process.stdout.close()


USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]


def inside(pid: int) -> list[str]:
    """Return the words that run a command in the namespaces of a process, but with this machine's files."""
    # A user's namespaces have this machine's network, which only root may enter again.
    others = ["--user", "--preserve-credentials"] if USER else ["--net"]
    return ["nsenter", "--target", str(pid), *others, "--pid", "unshare", "--mount", "--mount-proc"]


def child_of(pid: int) -> int:
    """Return the first child of a process, 0 if there is none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return int((file.read().split() or ["0"])[0])
    except FileNotFoundError:
        return 0


def has_namespaces() -> bool:
    """Whether a user may make process namespaces here."""
    made = subprocess.run(
        ["unshare", *USER, "--pid", "--fork", "--mount-proc", "true"], check=False, capture_output=True
    )
    return made.returncode == 0


needs_namespaces = pytest.mark.skipif(not has_namespaces(), reason="no process namespace may be made here")
