"""Where it is measured: a stand-in cluster in a process of its own, workers, and what the peers need to find them."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import sys
import tempfile
from typing import TYPE_CHECKING

from agents.playground.cluster import Cluster
from rshagent.native import client_build

from .measure import BenchmarkError
from .peers import Direct, Hub, Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stage:
    """A cluster with workers, ready to be called by each peer."""

    def __init__(self, folder: str, cluster: Cluster, workers: int, python: str) -> None:
        self.folder = folder
        self.workers = cluster.create_workers(workers)
        self._python = python
        self._client = os.path.join(folder, "rshagent")
        self._hubs = 0
        hostfile = os.path.join(folder, "hostfile")
        with open(hostfile, "w", encoding="ascii") as file:
            file.writelines(f"{worker} slots=1\n" for worker in self.workers)
        home = os.path.join(folder, "home")
        os.makedirs(home)
        self._environ = {
            "PATH": os.defpath,
            "HOME": home,
            "POD_NAME": f"bench-{secrets.token_hex(4)}",
            "MPI_AGENT_HOSTFILE": hostfile,
            "MPI_AGENT_HOSTS": os.path.join(folder, "hosts"),
            **cluster.environ(),
        }
        self.kubectl = Kubectl(kubectl_program(), cluster.kubeconfig(), home)
        self.direct = Direct(python, self._environ)
        try:
            client_build.build(self._client)
        except client_build.BuildError as error:
            raise BenchmarkError(str(error)) from None

    def hub(self) -> Hub:
        """A fresh hub, to be entered: what one figure leaves in its memory is not the next one's."""
        self._hubs += 1
        folder = os.path.join(self.folder, f"hub-{self._hubs}")
        os.makedirs(folder)
        return Hub(self._python, self._client, self._environ, folder)

    def forget(self) -> None:
        """Remove direct mode's marks of workers that it has swept."""
        for path in glob.glob(f"/tmp/.mpi-agent-{self._environ['POD_NAME']}-*"):
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def staged(workers: int, python: str) -> Iterator[Stage]:
    """Set the stage, and clear it. Raises BenchmarkError."""
    with (
        tempfile.TemporaryDirectory(prefix="mpi-agents-bench-") as folder,
        Cluster(os.path.join(folder, "cluster")) as cluster,
    ):
        stage = Stage(folder, cluster, workers, python)
        try:
            yield stage
        finally:
            stage.forget()


def kubectl_program() -> str:
    """The kubectl of the environment we run in, and no other, so that its version is the one that was asked for."""
    path = os.path.join(sys.prefix, "bin", "kubectl")
    if not os.access(path, os.X_OK):
        raise BenchmarkError(f"{path} is missing: make bench installs it")
    return path
