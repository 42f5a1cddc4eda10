"""Ranks run where the hostfile says, for every MPI, every OpenSSH and every kind of user. All jobs run side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

HOME = "/home/mpiuser"
ARBITRARY = 123456  # is in no image's /etc/passwd
GENERATED = {"passwd": "generated"}  # the image with Debian alone has nobody with 1000 either


def kubeflows(file: str, example: str) -> MpiJob:
    """One of kubeflow's examples with an image made like the one it names, on a small machine."""
    return MpiJob.of_kubeflow(file).image(example).environ({"I_MPI_PIN": "0", "OMPI_MCA_mpi_yield_when_idle": "1"})


# In a baseline namespace: images' own users, sshd by the image's configuration or by ours.
JOBS: dict[str, Callable[[], MpiJob]] = {
    "openmpi4-root": lambda: SshJob("openmpi4", slots=2),
    "openmpi5-root": lambda: SshJob("openmpi5", slots=2),
    "mpich-root": lambda: SshJob("mpich", slots=2),
    "intel-root": lambda: SshJob("intel", slots=2),
    "openmpi5-user": lambda: SshJob("openmpi5", slots=2).run_as(1000, home=HOME),
    "v1-user": lambda: SshJob("openmpi4", "v1", slots=2).run_as(1000).annotate(ssh_passwd="generated"),
    "kubeflow-openmpi": lambda: kubeflows("pi.yaml", "openmpi5-ssh"),
    "kubeflow-mpich": lambda: kubeflows("pi-mpich.yaml", "mpich-ssh"),
    "kubeflow-intel": lambda: kubeflows("pi-intel.yaml", "intel-ssh"),
}
# In one that enforces *restricted*: sshd has no capability, or the one that its image's file asks for.
RESTRICTED: dict[str, Callable[[], MpiJob]] = {
    "openmpi4-user": lambda: SshJob("openmpi4", slots=2).run_as(1000).restrict().set(ssh=GENERATED),
    "openmpi4-arbitrary": lambda: SshJob("openmpi4", slots=2).run_as(ARBITRARY).restrict(),
    "openmpi5-arbitrary": lambda: SshJob("openmpi5", slots=2).run_as(ARBITRARY).restrict("NET_BIND_SERVICE"),
    "mpich-arbitrary": lambda: SshJob("mpich", slots=2).run_as(ARBITRARY).restrict("NET_BIND_SERVICE"),
}


@pytest.fixture(scope="module")
def running(submit_all: SubmitAll) -> dict[str, Submitted]:
    """All jobs, submitted."""
    # kubeflow's example goes a minute after its end, which may be while the others are looked at.
    jobs = {name: make() for name, make in JOBS.items()}
    for job in jobs.values():
        job.policy.pop("ttlSecondsAfterFinished", None)
    return submit_all(jobs, "baseline") | submit_all({name: make() for name, make in RESTRICTED.items()}, "restricted")


@pytest.mark.parametrize("name", [*JOBS, *RESTRICTED])
def test_ranks_run_where_the_hostfile_says(running: dict[str, Submitted], name: str) -> None:
    one = running[name]
    assert one.verdict(240) == "Succeeded", one.output
    slots = one.job.spec["slotsPerWorker"]
    assert one.ranks() == {rank: one.job.workers[rank // slots] for rank in range(len(one.job.workers) * slots)}
    # A busy node probes the worker agent before it listens, and the probe in kubeflow's examples comes before sshd.
    early = ['/readyz?wait": dial tcp', *(["Readiness probe failed: dial tcp"] if name.startswith("kubeflow-") else [])]
    assert [seen for seen in one.namespace.warnings(name) if not any(probe in seen for probe in early)] == []


def test_an_ssh_job_gets_no_rights(running: dict[str, Submitted]) -> None:
    one = running["openmpi4-root"]
    one.verdict(240)
    kinds = {found.partition("/")[0] for found in one.objects()}
    assert kinds == {"ConfigMap", "Job", "Pod", "Secret", "Service"}
    pod = one.launcher_pod()
    assert pod is not None
    assert not [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
