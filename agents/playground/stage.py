"""A whole job on the stage, for `run` and `demo`: cluster, pods, client, hub, delivery, launcher, and their end.

Whatever ends it (the job's end, Ctrl-C, TERM), no process and no file is left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from . import wheels
from .cluster import Cluster
from .job import Job, JobError, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from .launchers import Launcher
    from .pod_process import PodProcess

_AFTER_INTERRUPT_S = 15.0
_SIOCGIFFLAGS, _SIOCGIFADDR = 0x8913, 0x8915  # netdevice(7)
_IFF_UP, _IFF_LOOPBACK = 1, 8


class Terminated(BaseException):
    """TERM came: end, and leave nothing behind."""


@contextlib.contextmanager
def ending_on_term() -> Iterator[None]:
    """Make an exception, Terminated, of TERM."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Stage:
    """Does the steps of a job one by one, and remembers how long each took."""

    def __init__(self, launcher: Launcher, *, workers: int, slots: int, tell: Callable[[str], None]) -> None:
        self.launcher = launcher
        self.steps: list[tuple[str, float]] = []
        self._workers = workers
        self._slots = slots
        self._tell = tell
        self._ending = contextlib.ExitStack()
        self.job: Job

    def __enter__(self) -> Stage:
        self._ending.enter_context(ending_on_term())
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.close()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step."""
        began = time.monotonic()
        yield
        self.steps.append((name, time.monotonic() - began))

    def set_up(self, folder: str | None = None) -> Cluster:
        """Install the launcher if need be and start the cluster. Raises InstallError, ClusterError, JobError."""
        if self.launcher.needs_interface and not has_interface():
            raise JobError(
                f"{self.launcher.title} {self.launcher.version} uses no loopback between its daemons, and no other "
                "network interface is up: connect to a network, or choose another launcher (--launcher openmpi4)"
            )
        prefix = wheels.installed(self.launcher, self._tell)
        if folder is None:
            folder = self._ending.enter_context(tempfile.TemporaryDirectory(prefix="mpi-playground-"))
        environ = self.launcher.environment(prefix, os.environ.get("PATH", os.defpath))
        with self.step("API server started"):
            cluster = self._ending.enter_context(Cluster(folder, environ=environ))
        self.job = Job(cluster, self.launcher, workers=self._workers, slots=self._slots)
        return cluster

    def start(self, steps: Sequence[Steps] = ()) -> None:
        """Pods, client, hub; then delivery, which waits for the workers. Raises JobError."""
        with self.step("client compiled"):
            self.job.build_client()
        with self.step("pods created, hub serving"):
            self.job.create(steps)
            self.job.start_hub()
        with self.step("delivery: workers ready, tools in place"):
            self.job.deliver(sys.stderr)

    def launch(self, ranks: int, program: Sequence[str], *, cwd: str | None = None) -> int:
        """Run the launcher to its end; its exit code. The first Ctrl-C is the launcher's, the second ends all."""
        process = self.job.launch(ranks, program, cwd=cwd, stdin=sys.stdin)
        with self.step(f"{self.launcher.call[0]}: {ranks} ranks on {self._workers} workers"):
            try:
                return process.wait()
            except KeyboardInterrupt:
                return self._interrupt(process)

    def stop(self) -> None:
        """End the hub, and with it what may still run."""
        with self.step("hub ended"):
            self.job.stop_hub()

    def _interrupt(self, process: PodProcess) -> int:
        """Hand a Ctrl-C on, as the terminal would have: the launcher is in a session of its own."""
        process.signal_group(signal.SIGINT)
        self._tell("Ctrl-C: the launcher has it, and ends the ranks (again: end all at once)")
        try:
            return process.wait(_AFTER_INTERRUPT_S) or 128 + signal.SIGINT
        except subprocess.TimeoutExpired:
            self._tell(f"it has not ended within {_AFTER_INTERRUPT_S:.0f} s: killed")
            process.kill()
            return process.wait()


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def has_interface() -> bool:
    """Whether an interface other than loopback is up and has an IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _number, name in socket.if_nameindex():
            request = struct.pack("16s16x", name.encode())
            try:
                flags = struct.unpack("16xH", fcntl.ioctl(sock, _SIOCGIFFLAGS, request)[:18])[0]
                fcntl.ioctl(sock, _SIOCGIFADDR, request)
            except OSError:  # it has no address, or has just gone
                continue
            if flags & _IFF_UP and not flags & _IFF_LOOPBACK:
                return True
    return False
