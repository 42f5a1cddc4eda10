"""The worker agent as it runs in a pod: the real command, a real sshd, folders as the kubelet mounts them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from running import DEADLINE_S, ROOT, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SSHD = "/usr/sbin/sshd"
needs_sshd = pytest.mark.skipif(not os.path.exists(SSHD), reason="no sshd here (apt-get install openssh-server)")


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Worker:
    """An `mpi-worker` and what it says."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.environ = {
            "PATH": os.environ["PATH"],
            "MPI_WORKER_PORT": str(self.port),
            "MPI_WORKER_ORDERS": str(folder / "orders" / "order"),
            **environ,
        }
        self._log = folder / "worker.log"
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(self.command(), env=self.environ, cwd=ROOT, stderr=log, stdout=log)

    def command(self) -> list[str]:
        """Return what is run."""
        return [sys.executable, "-m", "agents.worker"]

    def log(self) -> str:
        """Return what was said."""
        return self._log.read_text()

    def ask(self, path: str) -> tuple[int, str]:
        """Return the code and the text of an answer; 0 where nobody answers."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=DEADLINE_S) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except URLError:
            return 0, ""

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
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)


@contextlib.contextmanager
def running(folder: Path, **environ: str) -> Iterator[Worker]:
    """Run a worker agent; it has to end well."""
    worker = Worker(folder, **environ)
    try:
        yield worker
        assert worker.end() == 0, worker.log()
        assert "internal error" not in worker.log()
    finally:
        worker.process.kill()
        worker.process.wait()


class SshServer:
    """An sshd of our own, with no more than what a test needs."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self.port = port
        os.makedirs("/run/sshd" if os.getuid() == 0 else folder, exist_ok=True)
        self.host_key = folder / "host_key"
        if not self.host_key.exists():
            keygen(self.host_key)
        self.pid_file = folder / "run" / "sshd.pid"
        self.pid_file.parent.mkdir(exist_ok=True)
        self._log = folder / "sshd.log"
        config = ["-f", "/dev/null", "-h", str(self.host_key), "-p", str(port), "-o", f"PidFile={self.pid_file}"]
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", *config, *options], stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        until(self._listens, f"sshd listens: {self.log()}")

    def log(self) -> str:
        """Return what sshd said."""
        return self._log.read_text()

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal."""
        self.process.send_signal(number)
        self.process.wait(DEADLINE_S)

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log()
        return "Server listening" in self.log() and self.pid_file.exists()


def keygen(path: Path) -> None:
    """Make a pair of keys."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, stdout=subprocess.PIPE)


class Mounted:
    """A folder as the kubelet's AtomicWriter keeps it: the files are links through `..data`, which is swapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        path.mkdir()

    def write(self, **files: str) -> None:
        """Swap all files for these (pkg/volume/util/atomic_writer.go)."""
        self._count += 1
        before = self.path / "..data"
        old = os.readlink(before) if before.is_symlink() else ""
        new = self.path / f"..2026_{self._count}"
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


def monotonic() -> float:
    """Return the clock that deadlines are told by."""
    return time.monotonic()
