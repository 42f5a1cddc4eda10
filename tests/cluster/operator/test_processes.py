"""`workerAgent: {processes: true}` in a job by exec: the agent sees the ranks, and nothing else of the job changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.local.daemons import until
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted


def test_the_agent_sees_the_ranks_of_guaranteed_workers(submit: Callable[[MpiJob], Submitted]) -> None:
    """In a namespace that enforces *restricted*."""
    job = MpiJob("v1", workers=1, slots=2).run("pi", "3600")
    job.spec["workerAgent"] = {"processes": True}
    job.worker["securityContext"]["runAsGroup"] = 1000  # the image's: else the agent may not read whose rank it is
    job.worker["containers"][0]["resources"] = {"limits": {"cpu": "500m", "memory": "256Mi"}}
    running = submit(job)
    running.until_output("rank 1 of 2")
    until("both ranks in the metrics", lambda: running.ranks_of_agent() >= {"0", "1"}, 60)
    [name] = job.workers
    worker = running.namespace.wait_ready([name])[name]
    assert worker["spec"]["shareProcessNamespace"] is True
    assert worker["status"]["qosClass"] == "Guaranteed"
