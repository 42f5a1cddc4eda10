"""One job, from its creation to a rank's first line and to Succeeded."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.clusters import printed
from tests.benchmarks.measure import BenchmarkError
from tests.cluster.kube import until
from tests.cluster.operator.submitted import Submitted

from .jobs import job

if TYPE_CHECKING:
    from tests.cluster.kube import Namespace

_RUN_S = 600.0
_ROLE, _JOB = "training.kubeflow.org/job-role", "training.kubeflow.org/job-name"
_RANK = r"rank (\d+) of \d+ on (\S+)"


class Times(NamedTuple):
    """Seconds since the job's creation. `tries`: how often the launcher's container was started."""

    first_rank_s: float
    succeeded_s: float
    tries: int


def run(namespace: Namespace, way: str, workers: int, name: str) -> Times:
    """Submit the job, wait until it has Succeeded and all that it had is gone. Raises BenchmarkError, WaitError."""
    running = Submitted(namespace, job(way, workers, name))
    # The kubelet looks at its containers once a second; the run before ended at such a look, and users wait for none.
    time.sleep(random.random())
    created, began = time.time(), time.perf_counter()
    running.start()
    if running.verdict(_RUN_S) == "Failed":
        raise BenchmarkError(f"{way}: the job failed: {running.condition('Failed')}")
    took = time.perf_counter() - began
    pods = namespace.pods(f"{_JOB}={name},{_ROLE}=launcher")
    lines = [line for pod in pods for line in printed(namespace, pod["metadata"]["name"], "mpi-launcher", _RANK)]
    wanted = {(str(rank), f"{name}-worker-{rank}") for rank in range(workers)}
    if {found.groups() for _, found in lines} != wanted:
        raise BenchmarkError(f"{way}: {len(lines)} ranks have printed a line, and not all {workers} where they belong")
    restarts = sum(one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"])
    running.delete()
    until("the end of its pods", lambda: not namespace.pods(), _RUN_S)  # it would slow down the next run
    return Times(min(at for at, _ in lines) - created, took, len(pods) + restarts)
