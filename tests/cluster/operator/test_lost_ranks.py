"""Open MPI 5's mpirun exits with 0 although it lost a daemon: the job fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

WAITS = "mpirun -n 2 sh -c 'echo waiting; exec sleep 3600'"
KILL_DAEMON = (
    "for at in /proc/[0-9]*; do read -r name <$at/comm && [ $name = prted ] && kill -9 ${at#/proc/}; done; true"
)


def lose(namespace: Namespace, what: str) -> None:
    """Lose the second worker's daemon, or that worker."""
    if what == "worker":
        namespace.delete("Pod", "pi-worker-1", grace_s=1)
    else:
        done = namespace.exec_in("pi-worker-1", ["sh", "-c", KILL_DAEMON], "mpi")
        assert done.code == 0, done.errors


@pytest.mark.parametrize("what", ["worker", "daemon"])
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_job_that_lost_ranks_has_failed(submit: Submit, version: str, what: str) -> None:
    job = MpiJob(version, "openmpi5").command("/bin/sh", "-c", f"{WAITS} || true")
    job.policy["cleanPodPolicy"] = "Running"
    running = submit(job)
    running.until_output("waiting", 2)
    lose(running.namespace, what)
    assert running.verdict() == "Failed", running.output
    failed = running.condition("Failed")
    assert failed["reason"] == "RanksLost", failed
    assert "ranks were lost while mpirun ran: pi-worker-1 (" in failed["message"]
