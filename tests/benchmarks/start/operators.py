"""The jobs' image, and both operators as processes beside a cluster: runPolicy.managedBy says whose a job is."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kubernetes.dynamic.exceptions import NotFoundError

from tests.benchmarks.measure import ROOT
from tests.benchmarks.operator.peers import LEASES, peers
from tests.cluster.images import image
from tests.cluster.kube import LABELS
from tests.cluster.local.build import run
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.daemons import Daemon, until
from tests.cluster.local.places import Places, SetupError
from tests.cluster.operators.operator import taken
from tests.cluster.turns import one_session

from .jobs import IMAGE, RAISED, THEIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api

_DEFINITION = ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "mpijobs.kubeflow.org")
_LEASE = ("Lease", "coordination.k8s.io/v1")
_JOBS = "/apis/kubeflow.org/v2beta1/mpijobs"
_WAIT_S = 60.0


def build_image(say: Callable[[str], None]) -> None:
    """Build the jobs' image, and put it into the node. Raises SetupError."""
    cluster = LocalCluster(Places.of(), say)
    cluster.engine.start()
    try:
        words = ("docker", "build", "--network=host", "--tag", IMAGE, "--build-arg", f"MPI={image('openmpi4')}")
        file = ("--file", str(Path(__file__).with_name("Dockerfile")), str(Path(ROOT, "images/examples/ssh")))
        run(cluster.places, *words, *file, env=cluster.engine.environment, say=say)
        cluster.load_built([IMAGE])
    finally:
        cluster.engine.stop()


class Operators:
    """Ours, which runs all the time, and theirs, which is started for its own jobs."""

    def __init__(self, api: Api, kubeconfig: str, folder: Path) -> None:
        self._api = api
        shipped, ours = peers(image("mpi-agents"), is_raised=False)
        raised = peers(image("mpi-agents"))[0]
        self.ours = replace(ours, program=(*ours.program, "--adopt=given"))
        self._theirs = {THEIRS: shipped, RAISED: raised}
        self._daemons = {
            way: Daemon(way, peer.command(kubeconfig), folder, folder)
            for way, peer in (("ours", self.ours), *self._theirs.items())
        }

    def start(self) -> None:
        """Start ours, and wait until it works. Raises SetupError."""
        self.ours.start(self._daemons["ours"])

    def stop(self) -> None:
        """End ours, and leave nothing of it."""
        self._daemons["ours"].stop()
        _remove(self._api, *_LEASE, LEASES[1], "default")

    @contextlib.contextmanager
    def of(self, way: str) -> Iterator[None]:
        """Have the operator work whose jobs these are. Raises SetupError."""
        if way not in self._theirs:
            yield
            return
        daemon = self._daemons[way]
        daemon.log.unlink(missing_ok=True)  # in which it says that it works
        try:
            self._theirs[way].start(daemon)
            yield
        finally:
            daemon.stop()
            _remove(self._api, *_LEASE, LEASES[0], "default")  # else the next one waits until it is over


@contextlib.contextmanager
def operators(api: Api, kubeconfig: str) -> Iterator[Operators]:
    """Define the kind, have ours run, and leave nothing of it all. Raises SetupError."""
    folder = Path(tempfile.mkdtemp(prefix="mpi-agents-bench-"))
    made = Operators(api, kubeconfig, folder)
    definition = made.ours.definition  # kubeflow's own with more fields
    definition["metadata"]["labels"] = {**definition["metadata"].get("labels", {}), **LABELS}
    with one_session():
        if said := taken(api):
            raise SetupError(said)
        _remove(api, *_DEFINITION)
        try:
            api.call("post", api.path(*_DEFINITION[:2]), definition)
            until("the kind's definition", lambda: bool(api.find(_JOBS)), _WAIT_S)
            made.start()
            yield made
        finally:
            made.stop()
            _remove(api, *_DEFINITION)
            shutil.rmtree(folder)


def _remove(api: Api, kind: str, api_version: str, name: str, namespace: str | None = None) -> None:
    path = api.path(kind, api_version, name, namespace)
    with contextlib.suppress(NotFoundError):
        api.call("delete", path)
        until(f"the end of {kind} {name}", lambda: not api.find(path), _WAIT_S)
