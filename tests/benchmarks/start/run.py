"""One job, from its creation to a rank's first line and to Succeeded."""

from __future__ import annotations

import contextlib
import json
import random
import re
import secrets
import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.measure import BenchmarkError
from tests.cluster.kube import Namespace
from tests.cluster.local.daemons import until

from .jobs import job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Api

_RUN_S = 600.0
_LOG_S = 10.0
_ROLE, _JOB = "training.kubeflow.org/job-role", "training.kubeflow.org/job-name"
_RANK = re.compile(r"rank (\d+) of \d+ on (\S+)")


class Times(NamedTuple):
    """Seconds since the job's creation. `tries`: how often the launcher's container was started."""

    first_rank_s: float
    succeeded_s: float
    tries: int


@contextlib.contextmanager
def namespace_for(api: Api) -> Iterator[Namespace]:
    """Make a namespace in which pods can be made at once; it is deleted afterwards, and not waited for."""
    namespace = Namespace(api, f"bench-{secrets.token_hex(3)}")
    namespace.create()
    account = namespace.path("ServiceAccount", "default")
    until("the namespace's service account", lambda: bool(api.find(account)), _RUN_S)
    try:
        yield namespace
    finally:
        namespace.delete("Namespace", namespace.name)


def run(namespace: Namespace, way: str, workers: int, name: str) -> Times:
    """Submit the job, wait until it has Succeeded, and until all that it had is gone. Raises BenchmarkError."""
    path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace.name}/mpijobs"
    body = job(way, workers, name)
    # The kubelet looks at its containers once a second; the run before ended at such a look, and users wait for none.
    time.sleep(random.random())
    created, began = time.time(), time.perf_counter()
    made = namespace.api.call("post", path, body)
    _until_succeeded(namespace, path, made, way)
    took = time.perf_counter() - began
    pods = namespace.pods(f"{_JOB}={name},{_ROLE}=launcher")
    lines = [line for pod in pods for line in _rank_lines(namespace, pod["metadata"]["name"])]
    wanted = {(rank, f"{name}-worker-{rank}") for rank in range(workers)}
    if {(rank, host) for _, rank, host in lines} != wanted:
        raise BenchmarkError(f"{way}: {len(lines)} ranks have printed a line, and not all {workers} where they belong")
    restarts = sum(one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"])
    namespace.api.call("delete", f"{path}/{name}", query={"propagationPolicy": "Background"})
    until("the end of its pods", lambda: not namespace.pods(), _RUN_S)  # it would slow down the next run
    return Times(min(at for at, _, _ in lines) - created, took, len(pods) + restarts)


def _until_succeeded(namespace: Namespace, path: str, made: dict[str, object], way: str) -> None:
    metadata: dict[str, str] = made["metadata"]  # type: ignore[assignment]
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={metadata['name']}",
        "resourceVersion": metadata["resourceVersion"],
        "timeoutSeconds": int(_RUN_S),
    }
    for line in namespace.api.lines(path, query, _RUN_S):
        conditions = json.loads(line)["object"].get("status", {}).get("conditions") or ()
        true = {one["type"] for one in conditions if one["status"] == "True"}
        if "Failed" in true:
            raise BenchmarkError(f"{way}: the job failed: {conditions}")
        if "Succeeded" in true:
            return
    raise BenchmarkError(f"{way}: the job has not Succeeded within {_RUN_S:.0f} s")


def _rank_lines(namespace: Namespace, pod: str) -> list[tuple[float, int, str]]:
    """When ranks printed their lines, by the container runtime's clock, which is ours; which, and where they were."""
    path, query = f"{namespace.path('Pod', pod)}/log", {"container": "mpi-launcher", "timestamps": "true"}
    found = []
    for line in namespace.api.lines(path, query, _LOG_S):
        when, _, text = line.partition(" ")
        if said := _RANK.search(text):
            found.append((datetime.fromisoformat(when).timestamp(), int(said[1]), said[2]))
    return found
