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
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.build import run
from tests.cluster.bed.daemons import Daemon, until
from tests.cluster.bed.places import Places
from tests.cluster.images import image
from tests.cluster.operators.operator import LABELS, alone

from .jobs import IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api

_DEFINITION = ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "mpijobs.kubeflow.org")
_JOBS = "/apis/kubeflow.org/v2beta1/mpijobs"
_WAIT_S = 60.0


def build_image(say: Callable[[str], None]) -> None:
    """Build the jobs' image, and put it into the node. Raises BedError."""
    bed = Bed(Places.of(), say)
    bed.engine.start()
    try:
        words = ("docker", "build", "--network=host", "--tag", IMAGE, "--build-arg", f"MPI={image('openmpi4')}")
        file = ("--file", str(Path(__file__).with_name("Dockerfile")), str(Path(ROOT, "images/examples/ssh")))
        run(bed.places, *words, *file, env=bed.engine.environment, say=say)
        bed.load_built([IMAGE])
    finally:
        bed.engine.stop()


@contextlib.contextmanager
def both(api: Api, kubeconfig: str) -> Iterator[None]:
    """Have them run, and leave nothing of them. Raises BedError, TakenError."""
    theirs, ours = peers(image("mpi-agents"))
    ours = replace(ours, program=(*ours.program, "--adopt=given"))
    definition = ours.definition  # kubeflow's own with more fields
    definition["metadata"]["labels"] = {**definition["metadata"].get("labels", {}), **LABELS}
    folder = Path(tempfile.mkdtemp(prefix="mpi-agents-bench-"))
    daemons = [Daemon(peer.name, peer.command(kubeconfig), folder, folder) for peer in (theirs, ours)]
    with alone(api):
        _remove(api, *_DEFINITION)
        try:
            api.call("post", api.path(*_DEFINITION[:2]), definition)
            until("the kind's definition", lambda: _is_there(api, _JOBS), _WAIT_S)
            for peer, daemon in zip((theirs, ours), daemons, strict=True):
                peer.start(daemon)
            yield
        finally:
            for daemon in daemons:
                daemon.stop()
            for lease in LEASES:  # else the next one waits until it is over, or takes us for a neighbour
                _remove(api, "Lease", "coordination.k8s.io/v1", lease, "default")
            _remove(api, *_DEFINITION)
            shutil.rmtree(folder)


def _remove(api: Api, kind: str, api_version: str, name: str, namespace: str | None = None) -> None:
    path = api.path(kind, api_version, name, namespace)
    with contextlib.suppress(NotFoundError):
        api.call("delete", path)
        until(f"the end of {kind} {name}", lambda: not _is_there(api, path), _WAIT_S)


def _is_there(api: Api, path: str) -> bool:
    try:
        api.call("get", path)
    except NotFoundError:
        return False
    return True
