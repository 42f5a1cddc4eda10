"""A stand-in cluster with the operator in it, for `demo`, `apply` and `up`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from . import image, wheels
from .client import Client
from .cluster import Cluster
from .job import JobError
from .stage import ending_on_term, has_interface

if TYPE_CHECKING:
    from collections.abc import Callable

    from .launchers import Launcher
    from .pod_process import PodProcess

NAMESPACE = "mpi-agents"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_START = "from agents.operator.cli import main; main()"
_END_S = 10.0


class Operated:
    """Everything that is there before a job. Use it as a context; at its end nothing is left."""

    def __init__(self, launcher: Launcher, tell: Callable[[str], None]) -> None:
        self._launcher = launcher
        self._tell = tell
        self._ending = contextlib.ExitStack()
        self.cluster: Cluster
        self.client: Client
        self.log = ""
        """The operator's log."""
        self._operator: PodProcess | None = None

    def __enter__(self) -> Operated:
        self._ending.enter_context(ending_on_term())
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.stop_operator()
        finally:
            self._ending.close()

    def set_up(self, folder: str | None = None) -> None:
        """Launcher, image, cluster, operator. Raises InstallError, ImageError, ClusterError, JobError."""
        if self._launcher.needs_interface and not has_interface():
            raise JobError(
                f"{self._launcher.title} {self._launcher.version} uses no loopback between its daemons, and no other "
                "network interface is up: choose another launcher (--launcher openmpi4)"
            )
        prefix = wheels.installed(self._launcher, self._tell)
        if folder is None:
            folder = self._ending.enter_context(tempfile.TemporaryDirectory(prefix="mpi-playground-"))
        own = os.path.join(os.path.abspath(folder), "image")
        image.build(own)
        environ = image.environ(own, self._launcher.environment(prefix, os.environ.get("PATH", os.defpath)))
        self.cluster = self._ending.enter_context(Cluster(folder, environ=environ))
        self.client = Client(self.cluster)
        self._start_operator()

    def _start_operator(self) -> None:
        """It runs in a pod of its own: whatever becomes of us, it ends with the cluster."""
        self.cluster.create_pod("mpi-operator", namespace=NAMESPACE)
        self.log = os.path.join(self.cluster.folder, "operator.log")
        environ = {"KUBECONFIG": self.cluster.kubeconfig(), "PYTHONPATH": _ROOT}
        command = [sys.executable, "-c", _START, "--port", "0", "--lease-namespace", NAMESPACE]
        with open(self.log, "ab") as log:
            self._operator = self.cluster.exec_local(
                "mpi-operator",
                command,
                namespace=NAMESPACE,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def check(self) -> None:
        """Raises JobError if the operator has ended."""
        if self._operator is not None and self._operator.poll() is not None:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                last = (file.read().splitlines() or ["no word from it"])[-1]
            raise JobError(f"the operator ended with {self._operator.returncode}: {last}")

    def stop_operator(self) -> None:
        """Tell it to end; it gives its lease up."""
        operator, self._operator = self._operator, None
        if operator is None:
            return
        operator.terminate()
        deadline = time.monotonic() + _END_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            operator.wait(max(0.0, deadline - time.monotonic()))
        operator.close()
