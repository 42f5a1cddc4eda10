"""Elastic Horovod under our operator: its ranks follow `replicas`, and so does what its discovery script prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.faults import of_the_command
from tests.cluster.images import needs_horovod
from tests.cluster.kube import until
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

BOTH = pytest.mark.parametrize("version", ["v1", "v2beta1"])
DEADLINE_S = 120.0
DISCOVERY_S = 5.0  # from a change of the workers that are Ready to a change of the answer
DISCOVER = "/etc/mpi/discover_hosts.sh"
TRAIN = ("python3", "/usr/local/share/train_elastic.py")


def scale(running: Submitted, replicas: int) -> None:
    """Do what `kubectl patch` does."""
    running.change({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": replicas}}}})


def discovered(running: Submitted) -> str:
    """What Horovod is told in the launcher."""
    done = running.namespace.exec_in(running.launcher, [DISCOVER], running.job.main["name"])
    assert (done.code, done.errors) == (0, "")
    return done.output


def hosts(running: Submitted, replicas: int) -> str:
    """What it should print for so many workers."""
    domain = "" if running.job.version == "v1" else f".{running.job.name}.{running.namespace.name}.svc"
    slots = running.job.spec["slotsPerWorker"]
    return "".join(f"{running.job.name}-worker-{number}{domain}:{slots}\n" for number in range(replicas))


def until_discovered(running: Submitted, replicas: int) -> None:
    """Wait until it prints exactly so many workers."""
    what = f"{replicas} workers are discovered"
    wanted = hosts(running, replicas)
    until(lambda: f"{what}, but\n{discovered(running)}", lambda: discovered(running) == wanted, DISCOVERY_S)


@BOTH
def test_what_is_discovered_follows_replicas(submit: Submit, version: str) -> None:
    job = MpiJob(version, slots=2).command("/bin/sh", "-c", "echo begun; sleep 3600")
    running = submit(job)
    running.until_output("begun")
    until_discovered(running, 2)
    scale(running, 3)
    running.namespace.wait_ready([f"{job.name}-worker-2"])
    until_discovered(running, 3)
    scale(running, 1)
    until_discovered(running, 1)


@BOTH
def test_a_worker_of_after_the_start_is_launched_into_at_once(submit: Submit, version: str) -> None:
    """The mounted hostfile is a minute behind, and the API server may be a moment behind with the Role."""
    job = MpiJob(version).command("/bin/sh", "-c", "echo begun; sleep 3600")
    running = submit(job)
    running.until_output("begun")
    scale(running, 3)
    running.namespace.wait_ready([f"{job.name}-worker-2"])
    host = hosts(running, 3).split()[2].partition(":")[0]
    call = ["/etc/mpi/kubexec.sh", host, "uname -n; exit 7"]
    done = running.namespace.exec_in(running.launcher, call, job.main["name"])
    assert (done.code, done.output, of_the_command(done.errors)) == (7, f"{job.name}-worker-2\n", "")


@needs_horovod
@pytest.mark.slow
@pytest.mark.timeout(400)
@BOTH
def test_training_goes_on_while_replicas_change(submit: Submit, version: str) -> None:
    elastic = ["--min-np", "1", "--max-np", "3", "--host-discovery-script", DISCOVER]
    job = MpiJob(version, "horovod").command("horovodrun", "--gloo", "-np", "2", *elastic, *TRAIN, "400", "0.1")
    running = submit(job.environ({"HOME": "/tmp"}))  # where Horovod keeps what it has found out
    running.until_output("step 10 with 2 ranks", deadline_s=DEADLINE_S)

    scale(running, 3)
    log = running.until_output("0 with 3 ranks", deadline_s=DEADLINE_S)
    assert re.search(r"rank \d of 3 on \S+-worker-2: continues from step [1-9]", log), log

    scale(running, 1)
    running.until_output(f"rank 0 of 1 on {job.name}-worker-0: continues from step", deadline_s=DEADLINE_S)
    assert running.verdict(DEADLINE_S) == "Succeeded", running.output
    assert "1 ranks agree, losses fell" in running.output
