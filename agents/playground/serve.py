"""`serve`: the cluster alone, for kubectl and for one's own experiments, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from .cluster import Cluster
from .job import describe
from .stage import ending_on_term

if TYPE_CHECKING:
    import os


def serve(folder: str | os.PathLike[str], *, workers: int) -> int:
    """Start worker pods and say how to reach them; ends with 130, or as TERM does."""
    with ending_on_term(), Cluster(folder) as cluster:
        names = cluster.create_workers(workers, labels={"role": "worker"})
        sys.stdout.write(
            f"A stand-in API server; its pods, {names[0]} to {names[-1]}, are\n{describe(cluster)}.\n"
            f"  export KUBECONFIG={cluster.kubeconfig()}\n"
            f"  kubectl exec {names[0]} -- id        or:  {sys.executable} -m rshagent {names[0]} id\n"
            "Ctrl-C ends it.\n"
        )
        sys.stdout.flush()
        while True:
            signal.pause()
