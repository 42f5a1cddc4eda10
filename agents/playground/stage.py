"""A whole job on the stage, for `run` and `demo`: cluster, pods, client, hub, delivery, launcher, and their end.

Whatever ends it (the job's end, Ctrl-C, TERM), no process and no file is left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from . import wheels
from .cluster import Cluster
from .job import Job, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from .launchers import Launcher
    from .pod_process import PodProcess

_AFTER_INTERRUPT_S = 15.0


class Terminated(BaseException):
    """TERM came: end, and leave nothing behind."""


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
        self._ending.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, _terminate))
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
        """Install the launcher if need be and start the cluster. Raises InstallError, ClusterError."""
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
