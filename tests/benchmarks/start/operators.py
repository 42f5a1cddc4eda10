"""The jobs' image, and both operators as processes beside a cluster: runPolicy.managedBy says whose a job is."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measure import ROOT
from tests.benchmarks.operator.peers import LEASES, peers
from tests.cluster.images import image
from tests.cluster.kube import LABELS
from tests.cluster.local.build import run
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.daemons import Daemon
from tests.cluster.local.places import Places, SetupError
from tests.cluster.operators.operator import taken
from tests.cluster.turns import one_session

from .jobs import IMAGE, RAISED, THEIRS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.command import Say
    from tests.cluster.kube import Api


def build_image(say: Say) -> None:
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
        self._release(LEASES[1])

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
            self._release(LEASES[0])

    def _release(self, lease: str) -> None:
        """Remove a lease: else the next one waits until it is over."""
        self._api.remove(self._api.path("Lease", "coordination.k8s.io/v1", lease, "default"))


@contextlib.contextmanager
def operators(api: Api, kubeconfig: str) -> Iterator[Operators]:
    """Define the kind, have ours run, and leave nothing of it all. Raises SetupError."""
    with one_session(), tempfile.TemporaryDirectory(prefix="mpi-agents-bench-") as folder:
        if said := taken(api):
            raise SetupError(said)
        made = Operators(api, kubeconfig, Path(folder))
        definition = made.ours.definition  # kubeflow's own with more fields
        definition["metadata"]["labels"] = {**definition["metadata"].get("labels", {}), **LABELS}
        with api.made(definition):
            try:
                made.start()
                yield made
            finally:
                made.stop()
