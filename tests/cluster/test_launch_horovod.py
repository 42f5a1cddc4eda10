"""Horovod trains in real pods, by both of its controllers, and while workers come and go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.images import needs_horovod
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

pytestmark = [needs_horovod, pytest.mark.slow, pytest.mark.timeout(300)]

TRAIN = ("python3", "/usr/local/share/train.py")
DEADLINE_S = 120.0


def call(controller: str, *program: str) -> list[str]:
    return ["horovodrun", f"--{controller}", "-np", "2", "--hostfile", "/etc/mpi/hostfile", *program]


def assert_trained(running: Running) -> None:
    """The loss fell, and all ranks have the same parameters in the end, each on the worker that is its own."""
    assert running.end(DEADLINE_S) == 0, running.output
    assert "2 ranks agree, losses fell" in running.output
    lines = re.findall(r"rank (\d) of 2 on (\S+): loss (\S+) to (\S+), parameters (\w+)", running.output)
    assert {int(rank): host for rank, host, *_ in lines} == dict(enumerate(running.job.workers))
    assert all(float(last) < float(first) / 2 for *_, first, last, _ in lines)
    assert len({parameters for *_, parameters in lines}) == 1
    running.assert_nothing_left()


def test_the_example_runs_as_it_is(start: Start) -> None:
    assert_trained(start(Job.as_it_is("horovod")))


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_an_arbitrary_user_with_a_read_only_root(start: Start, controller: str) -> None:
    assert_trained(start(Job("horovod").command(*call(controller, *TRAIN)).run_as(12345, read_only=True)))


@pytest.mark.pod_security("baseline")
@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_root(start: Start, controller: str) -> None:
    assert_trained(start(Job("horovod").command(*call(controller, *TRAIN)).run_as(0)))


# Elastic --------------------------------------------------------------------------------------------------------------


def set_hosts(job: Job, workers: int) -> dict[str, str]:
    """Let the job's hostfile and discovery script name so many workers; the config map's data."""
    names = [f"{job.name}-worker-{number}" for number in range(workers)]
    data: dict[str, str] = job.of("ConfigMap")["data"]
    data["hostfile"] = "".join(f"{name} slots=1\n" for name in names)
    data["discover_hosts.sh"] = "#!/bin/sh\n" + "".join(f"echo {name}:1\n" for name in names)
    return data


def change_hosts(namespace: Namespace, job: Job, workers: int) -> None:
    """Do this to a job that runs. The kubelet sees to a pod's files sooner if the pod changes."""
    namespace.patch("ConfigMap", f"{job.name}-config", {"data": set_hosts(job, workers)})
    namespace.patch("Pod", job.launcher_name, {"metadata": {"annotations": {"hosts": str(workers)}}})


def test_training_goes_on_while_a_worker_comes_and_goes(namespace: Namespace, start: Start) -> None:
    job = Job("horovod", workers=3)  # the Role names the third worker from the start
    job.of("StatefulSet")["spec"]["replicas"] = 2
    set_hosts(job, 2)
    elastic = ["--min-np", "2", "--max-np", "3", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"]
    train = ["python3", "/usr/local/share/train_elastic.py", "600", "0.1"]
    job.command("horovodrun", "--gloo", "-np", "2", *elastic, *train)
    running = start(job)
    running.until_output("step 10 with 2 ranks", deadline_s=DEADLINE_S)

    namespace.patch("StatefulSet", f"{job.name}-worker", {"spec": {"replicas": 3}}, "apps/v1")
    namespace.wait_ready([f"{job.name}-worker-2"])
    change_hosts(namespace, job, 3)
    log = running.until_output("0 with 3 ranks", deadline_s=DEADLINE_S)
    assert re.search(r"rank \d of 3 on \S+-worker-2: continues from step [1-9]", log), log

    change_hosts(namespace, job, 2)
    running.until_output(" of 2 on ", 4, DEADLINE_S)  # two at the start, two now; Horovod chooses which rank is where
    namespace.patch("StatefulSet", f"{job.name}-worker", {"spec": {"replicas": 2}}, "apps/v1")
    assert running.end(DEADLINE_S) == 0, running.output
    assert "2 ranks agree, losses fell" in running.output
    running.assert_nothing_left()
