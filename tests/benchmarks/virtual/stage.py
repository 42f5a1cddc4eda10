"""Our operator, and virtual clusters that it makes, each in a namespace of its own."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from kubernetes.client.exceptions import ApiException

from tests.benchmarks.clusters import namespace_for
from tests.benchmarks.measure import BenchmarkError
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.places import Places, SetupError
from tests.cluster.operator.release import Release
from tests.cluster.operators.operator import taken
from tests.cluster.turns import one_session
from tests.cluster.virtual.virtualcluster import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kube import Api
    from tests.cluster.virtual.virtualcluster import VirtualCluster

_RUN_S = 900.0
_START_S = 600.0


class Login:
    """The login pod of a virtual cluster that is ready."""

    def __init__(self, running: Running) -> None:
        self._running, self.namespace = running, running.namespace

    def time(self, line: str, container: str = "mpi") -> tuple[float, str]:
        """Run a line; its wall time in seconds, and its stdout. Raises BenchmarkError unless it ends with 0."""
        words = ["/bin/bash", "-c", f"TIMEFORMAT=wall_s=%3R; time {{ {line}\n}}"]
        try:
            done = self.namespace.exec_in(self._running.login, words, container, timeout_s=_RUN_S)
        except ApiException:
            raise BenchmarkError(f"nothing can be run in container {container} of the login pod") from None
        wall = re.search(r"^wall_s=([\d.]+)$", done.errors, re.MULTILINE)
        if done.code or not wall:
            said = " ".join((done.output + done.errors.partition("wall_s=")[0]).replace("--", "").split())
            raise BenchmarkError(f"{line[:80]} ended with {done.code}: {said[-150:]}")
        return float(wall[1]), done.output

    def copy(self, file: Path, target: str) -> None:
        """Copy a file to all nodes. Raises BenchmarkError."""
        for node in (pod["metadata"]["name"] for pod in self.namespace.pods() if "-node-" in pod["metadata"]["name"]):
            words = ("--namespace", self.namespace.name, "cp", str(file), f"{node}:{target}", "--container=mpi")
            if LocalCluster(Places.of()).kubectl(*words) is None:
                raise BenchmarkError(f"{file} can't be copied to {node}")


@contextlib.contextmanager
def operator(api: Api, kubeconfig: str) -> Iterator[None]:
    """Have our operator installed by its chart. Raises SetupError, HelmError, WaitError."""
    release = Release(api, kubeconfig, "mpi-agents-bench")
    with one_session():
        if said := taken(api):
            raise SetupError(said)
        release.remove_everything()
        try:
            release.namespace.create("restricted")
            release.install()
            yield
        finally:
            release.remove_everything()


@contextlib.contextmanager
def login(api: Api, cluster: VirtualCluster) -> Iterator[Login]:
    """Make a virtual cluster, and wait until it is ready; it is deleted afterwards. Raises WaitError."""
    with namespace_for(api) as namespace:
        running = Running(namespace, cluster).start()
        running.until_ready(cluster.spec["nodes"]["replicas"], _START_S)
        yield Login(running)
    namespace.wait_deleted("Namespace", namespace.name, _START_S)  # or its end would slow down what comes next
