"""The examples of T9k's document run as they are written, except images; one walks through all its phases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.images import image, needs_horovod
from tests.cluster.t9k.running import Running
from tests.cluster.t9k.t9kjob import T9kJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "secret-name"},
    "stringData": {"key-in-secret": "referenced"},
}
TELL = 'echo "$(hostname) has $ENV_DIRECT $ENV_REFERENCED $NCCL_DEBUG $(df -k /dev/shm | tail -1)"'


def tutorial() -> T9kJob:
    """The API's newer generation, with a program and a volume that are there."""
    job = T9kJob.of_document("horovod-torch.yaml")
    job.spec["mpiConfig"]["script"] = ["pi"]
    job.pod["volumes"][0] = {"name": "data", "emptyDir": {}}
    job.main["resources"] = {}
    return job


def training() -> T9kJob:
    """That example with Horovod in it, and two workers without sshd."""
    job = T9kJob.of_document("horovod-torch.yaml")
    job.spec["transport"] = "exec"
    job.spec["mpiConfig"] |= {"home": "/usr", "script": ["python3", "/usr/local/share/train.py"]}
    job.spec["mpiConfig"]["extraArgs"] += ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    job.worker["replicas"] = 2
    job.pod["volumes"][0] = {"name": "data", "emptyDir": {}}
    job.main["image"], job.main["resources"] = image("horovod"), {}
    return job


@pytest.fixture(scope="module")
def namespace_of_all(installed: Release, new_namespace: Callable[[str], Namespace]) -> Iterator[Namespace]:
    """A namespace for all jobs of this module."""
    made = new_namespace("baseline")
    made.apply([SECRET])
    yield made
    made.delete("Namespace", made.name)


@pytest.fixture(scope="module")
def running(namespace_of_all: Namespace) -> dict[str, Running]:
    """All jobs, submitted."""
    parts = ("horovod", "shared-memory", "environment", "scheduler")
    jobs = {
        "random-walk": T9kJob.of_document("random-walk.yaml"),
        "parts": T9kJob("/bin/sh", "-c", TELL).with_example(*parts),
        "tutorial": tutorial(),
    }
    found = {}
    for name, job in jobs.items():
        job.body["metadata"]["name"] = name
        found[name] = Running(namespace_of_all, job).start()
    return found


def test_the_first_example_walks_through_its_phases(running: dict[str, Running]) -> None:
    one = running["random-walk"]
    assert one.story() == ["Pending", "Running", "Succeeded"], one.output
    assert "30 of 30 walkers have ended" in one.output
    assert one.ranks() == {rank: one.job.workers[rank // 3] for rank in range(15)}
    status = one.status()
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert conditions.items() >= {"Initialized": "True", "Completed": "True"}.items(), conditions
    words = "/usr/local/bin/mpirun --prefix /usr/local --hostfile /etc/mpi/hostfile --mca btl '^openib' -N 3"
    assert status["launchCommand"].startswith(words)


def test_tasks_and_aggregate_count_the_pods(running: dict[str, Running]) -> None:
    one = running["random-walk"]
    one.end()
    # Our sidecar ends after the program has, and the pod with it.
    one.until(lambda status: status["tasks"][0]["status"][0]["phase"] == "Succeeded", "has a pod that has ended")
    launcher = one.task("launcher")
    assert launcher["restartCount"] == 0
    assert [pod["name"] for pod in launcher["status"]] == ["random-walk-launcher"]
    assert [container["exitCode"] for container in launcher["status"][0]["containers"]] == [0]
    # cleanUpWorkers: true
    one.namespace.until(lambda pods: not set(one.job.workers) & pods.keys(), "the workers are gone")
    aggregate = one.until(lambda status: status["aggregate"]["running"] == 0, "runs nothing")["aggregate"]
    assert aggregate["succeeded"] == 1
    assert aggregate["failed"] == aggregate["pending"] == aggregate["creating"] == 0


def test_parts_of_the_document_make_one_job(running: dict[str, Running]) -> None:
    one = running["parts"]
    assert one.end() == "Succeeded", one.output
    told = dict(re.findall(r"^(parts-worker-\d) has env-value referenced INFO \S+ +(\d+) ", one.output, re.MULTILINE))
    assert told == dict.fromkeys(one.job.workers, str(1024**2)), one.output
    assert "--mca btl '^openib' --mca pml ob1" in one.status()["launchCommand"]


def test_the_newer_generation_runs(running: dict[str, Running]) -> None:
    one = running["tutorial"]
    assert one.end() == "Succeeded", one.output
    assert one.ranks() == dict(enumerate(one.job.workers))
    assert [pod["name"] for pod in one.task("launcher")["replicas"]] == ["tutorial-launcher"]


@needs_horovod
@pytest.mark.slow
def test_the_tutorial_trains_with_horovod(namespace_of_all: Namespace) -> None:
    job = training()
    job.body["metadata"]["name"] = "training"
    one = Running(namespace_of_all, job).start()
    assert one.end() == "Succeeded", one.output
    assert "2 ranks agree, losses fell" in one.output
    hosts = re.findall(r"rank \d of 2 on (\S+):", one.output)
    assert set(hosts) == set(job.workers)
