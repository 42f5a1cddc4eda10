"""One job on real pods, from its creation to Succeeded, under each operator."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes.dynamic.exceptions import NotFoundError

from tests.benchmarks.measure import BenchmarkError
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.build import run
from tests.cluster.bed.daemons import Daemon, until
from tests.cluster.bed.places import Places
from tests.cluster.images import image
from tests.cluster.kube import Namespace
from tests.cluster.operators.operator import LABELS, alone

from .peers import LEASES, THEIRS, peers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api

    from .peers import Peer

Object = dict[str, Any]

WITH_SSHD = "mpi-agents-bench-sshd:1"
WORKERS = 2
_DEFINITION = ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "mpijobs.kubeflow.org")
_FOLDER = Path(__file__).parent
_RUN_S = 120.0


def seconds(api: Api, kubeconfig: str, runs: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """How long the job took, by peer; a run before the others warms up. Raises BenchmarkError, BedError."""
    _build(say)
    found: dict[str, list[float]] = {}
    with alone(api):
        for peer in peers(image("mpi-agents")):
            with _installed(api, kubeconfig, peer), _namespace(api) as namespace:
                say(f"{peer.name}: {runs} runs of one job, and one before")
                found[peer.name] = [_run(namespace, peer, number) for number in range(runs + 1)][1:]
                say(f"{peer.name}: {', '.join(f'{one:.2f}' for one in found[peer.name])} s")
    return found


def job(peer: Peer, number: int) -> Object:
    """An MPIJob that runs `pi` in two workers: by ssh for theirs, by exec for ours."""
    base: Object = {"name": "mpi", "image": WITH_SSHD if peer.name == THEIRS else image("openmpi4")}
    waits = ["wait-for-names"] if peer.name == THEIRS else []
    # Two slots on one small machine: ranks that wait give way.
    variables = [{"name": "OMPI_MCA_mpi_yield_when_idle", "value": "1"}]
    launcher = base | {"command": [*waits, "mpirun", "--allow-run-as-root", "-n", str(WORKERS), "pi"], "env": variables}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": f"pi-{number}"},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
                "Worker": {"replicas": WORKERS, "template": {"spec": {"containers": [base]}}},
            },
            **peer.spec,
        },
    }


def _build(say: Callable[[str], None]) -> None:
    bed = Bed(Places.of(), say)
    bed.engine.start()
    try:
        words = ("docker", "build", "--network=host", "--tag", WITH_SSHD, "--build-arg", f"BASE={image('openmpi4')}")
        file = ("--file", str(_FOLDER / "sshd.Dockerfile"), str(_FOLDER))
        run(bed.places, *words, *file, env=bed.engine.environment, say=say)
        bed.load_built([WITH_SSHD])
    finally:
        bed.engine.stop()


@contextlib.contextmanager
def _installed(api: Api, kubeconfig: str, peer: Peer) -> Iterator[None]:
    """Have an operator run beside the cluster, and nothing left of it."""
    folder = Path(tempfile.mkdtemp(prefix="mpi-agents-bench-"))
    daemon = Daemon(peer.name, peer.command(kubeconfig), folder, folder)
    definition = peer.definition
    definition["metadata"]["labels"] = {**definition["metadata"].get("labels", {}), **LABELS}
    _remove(api, *_DEFINITION)
    try:
        api.call("post", api.path(*_DEFINITION[:2]), definition)
        until("the kind's definition", lambda: _is_there(api, "/apis/kubeflow.org/v2beta1/mpijobs"), _RUN_S)
        peer.start(daemon)
        yield
    finally:
        daemon.stop()
        for lease in LEASES:  # else the other one waits until it is over, or takes us for a neighbour
            _remove(api, "Lease", "coordination.k8s.io/v1", lease, "default")
        _remove(api, *_DEFINITION)
        shutil.rmtree(folder)


@contextlib.contextmanager
def _namespace(api: Api) -> Iterator[Namespace]:
    namespace = Namespace(api, f"bench-{secrets.token_hex(3)}")
    api.call("post", api.path("Namespace", "v1"), {"metadata": {"name": namespace.name}})
    account = namespace.path("ServiceAccount", "default")
    until("the namespace's service account", lambda: _is_there(api, account), _RUN_S)
    try:
        yield namespace
    finally:
        namespace.delete("Namespace", namespace.name)


def _run(namespace: Namespace, peer: Peer, number: int) -> float:
    """Submit the job, and tell how long it took until a watch said that it has Succeeded. Raises BenchmarkError."""
    path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace.name}/mpijobs"
    body = job(peer, number)
    began = time.perf_counter()
    made = namespace.api.call("post", path, body)
    query = {"watch": "true", "resourceVersion": made["metadata"]["resourceVersion"], "timeoutSeconds": int(_RUN_S)}
    for line in namespace.api.lines(path, query, _RUN_S):
        event = json.loads(line)["object"]
        conditions = event.get("status", {}).get("conditions") or ()
        true = {one["type"] for one in conditions if one["status"] == "True"}
        if event["metadata"]["name"] == body["metadata"]["name"] and true & {"Succeeded", "Failed"}:
            took = time.perf_counter() - began
            if "Failed" in true:
                raise BenchmarkError(f"{peer.name}: the job failed: {conditions}")
            _until_gone(namespace)
            return took
    raise BenchmarkError(f"{peer.name}: the job has not Succeeded within {_RUN_S:.0f} s")


def _until_gone(namespace: Namespace) -> None:
    """Wait until the workers are gone: their end would slow down the next run."""
    selector = "training.kubeflow.org/job-role=worker"
    until("the workers' end", lambda: not namespace.pods(selector), _RUN_S)


def _remove(api: Api, kind: str, api_version: str, name: str, namespace: str | None = None) -> None:
    path = api.path(kind, api_version, name, namespace)
    with contextlib.suppress(NotFoundError):
        api.call("delete", path)
        until(f"the end of {kind} {name}", lambda: not _is_there(api, path), _RUN_S)


def _is_there(api: Api, path: str) -> bool:
    try:
        api.call("get", path)
    except NotFoundError:
        return False
    return True
