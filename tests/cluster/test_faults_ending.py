"""The launcher ends before its job does: nothing of it stays behind in workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.faults import Ranks, container, until
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

WORKERS = 16
GRACE_S = 20
SWEPT_S = 10.0
END_S = 60.0
pytestmark = pytest.mark.usefixtures("local")
IGNORING = 'trap : TERM; "$@" & while :; do wait; done'


@pytest.mark.alone  # it is seen how soon the processes in all workers end
@pytest.mark.parametrize("example", ["openmpi4", "openmpi5"])
@pytest.mark.parametrize("ends", [True, False], ids=["ends on TERM", "ignores TERM"])
def test_the_launcher_is_deleted_with_16_workers_busy(
    start: Start, namespace: Namespace, example: str, ends: bool
) -> None:
    job = Ranks.job(Job(example, workers=WORKERS), 0, lasting=True)
    job.launcher["terminationGracePeriodSeconds"] = GRACE_S
    if not ends:
        job.command("/bin/sh", "-c", IGNORING, "sh", *job.main["command"])
    ranks = Ranks(start(job))
    launcher = container(namespace, ranks.running.launcher)
    until("each worker has what lasts", lambda: all(worker.count("sleep") > 1 for worker in ranks.workers))
    began = time.monotonic()
    namespace.delete("Pod", ranks.running.launcher)
    if ends:
        until("the main container has ended", lambda: not launcher.processes(), GRACE_S)
        within_s = SWEPT_S
    else:
        within_s = GRACE_S - (time.monotonic() - began)
    until(
        "nothing of the job is left in any worker",
        lambda: not any(worker.of_the_job for worker in ranks.workers),
        within_s,
    )
    namespace.wait_gone(ranks.running.launcher)


def test_the_launcher_is_restarted_in_place(start: Start, namespace: Namespace) -> None:
    job = Ranks.job(Job("openmpi4"), 0, lasting=True)
    job.launcher["restartPolicy"] = "OnFailure"
    ranks = Ranks(start(job))
    left = ranks.workers[0].of_the_job
    assert left
    namespace.delete("Pod", "pi-worker-1", grace_s=0)  # so the second try has a worker to wait for
    container(namespace, ranks.running.launcher).kill()
    namespace.wait(ranks.running.launcher, lambda pod: of.restarts(pod, "launcher"), "was restarted")
    ranks.find()
    assert not left & ranks.workers[0].of_the_job, "the first try's processes are gone"
    ranks.go_on()
    ranks.assert_ended_undisturbed(END_S)
