"""A job that is debugged: its pods are there, and its user starts mpirun by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.running import ranks_in
from tests.cluster.t9k.t9kjob import T9kJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.t9k.running import Running

    Run = Callable[[T9kJob], Running]

pytestmark = pytest.mark.pod_security("baseline")


def by_hand(running: Running) -> dict[int, str]:
    """Enter the launcher, start what the status says, and return where its ranks were."""
    words = ["/bin/sh", "-c", running.status()["launchCommand"]]
    done = running.namespace.exec_in(running.launcher, words, "mpi-worker")
    assert done.code == 0, done.errors
    return ranks_in(done.output)


@pytest.mark.slow
def test_mpirun_is_started_by_hand_as_often_as_one_likes(run: Run) -> None:
    running = run(T9kJob("pi").with_example("debug-2"))
    running.until_phase("Running")
    everywhere = dict(enumerate(running.job.workers))
    running.namespace.wait_ready([running.launcher, *running.job.workers])
    assert by_hand(running) == everywhere
    assert by_hand(running) == everywhere

    running.namespace.replace(running.job.workers[1])
    running.until_phase("Running")
    assert by_hand(running) == everywhere

    running.change({"spec": {"runMode": {"debug": {"enabled": False}}}})
    running.namespace.delete("Pod", running.launcher, grace_s=1)
    assert running.end() == "Succeeded", running.output
    assert running.ranks() == everywhere


def test_workers_run_what_is_debugged_instead(run: Run) -> None:
    job = T9kJob("pi", workers=1).with_example("debug-1")
    job.pod["initContainers"] = [{"name": "fails", "image": job.main["image"], "command": ["false"]}]
    job.spec["runMode"]["debug"]["replicaSpecs"].append({"type": "launcher", "skipInitContainer": True})
    running = run(job)
    running.until_phase("Running")
    running.namespace.wait_ready([running.launcher])
    running.namespace.wait(running.job.workers[0], lambda pod: of.is_running(pod, "mpi-worker"), "runs")
    done = running.namespace.exec_in(running.job.workers[0], ["cat", "/proc/1/cmdline"], "mpi-worker")
    assert done.output == "sleep\0inf\0"
