"""All launchers under kubeflow's training-operator, with the environment that `docs/switching.md` gives for each."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.images import needs_horovod
from tests.cluster.kube import until
from tests.cluster.operators.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.operators.operator import Operator

    Submit = Callable[[MpiJob], Submitted]

pytestmark = [
    pytest.mark.pod_security("baseline"),
    pytest.mark.timeout(600),
    pytest.mark.parametrize("installed", ["training-operator"], indirect=True),
]

SWITCHING = Path(__file__).parents[3] / "docs" / "switching.md"


def environment(title: str) -> dict[str, str]:
    """The variables that the page gives under this title."""
    found = re.search(
        rf"^### {re.escape(title)}\n.*?^```yaml\n(.*?)^```", SWITCHING.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found, title
    return {one["name"]: one["value"] for one in yaml.safe_load(found[1])["env"]}


def with_hydra(image: str, workers: int) -> MpiJob:
    """The example as a user of Hydra writes it, who has a hostfile of their own made of Open MPI's."""
    job = MpiJob("tensorflow-mnist", image, "pi").resize(workers)
    start = f"exec mpiexec -machinefile /tmp/hosts -n {workers} pi"
    return job.command("sh", "-c", f"sed 's/ slots=/:/' /etc/mpi/hostfile > /tmp/hosts && {start}")


def test_open_mpi_5(operator: Operator, submit: Submit) -> None:
    job = MpiJob(operator.example, "openmpi5", "pi").environ(environment("Open MPI 5"))
    running = submit(job.command("mpirun", "--allow-run-as-root", "-np", "2", "--bind-to", "none", "pi"))
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


def test_mpich(operator: Operator, submit: Submit) -> None:
    running = submit(with_hydra("mpich", 2).environ(environment("MPICH")))
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


@pytest.mark.slow
def test_intel_mpi_on_more_workers_than_its_daemons_start_at_once(operator: Operator, submit: Submit) -> None:
    running = submit(with_hydra("intel", 17).environ(environment("Intel MPI")))
    assert running.verdict(300) == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


@pytest.mark.slow
def test_open_mpi_on_more_workers_than_it_starts_itself(operator: Operator, submit: Submit) -> None:
    job = MpiJob(operator.example, "openmpi4", "pi").resize(65).environ(environment("More than 64 workers"))
    running = submit(job)
    assert running.verdict(300) == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))


@needs_horovod
@pytest.mark.slow
def test_elastic_horovod_takes_a_worker_that_comes(operator: Operator, submit: Submit) -> None:
    job = MpiJob("tensorflow-mnist-elastic", "horovod", "python3", "/usr/local/share/train_elastic.py", "150", "0.3")
    running = submit(job)
    running.until_output("continues from step 0", 2, 120)
    running.change({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}})
    config = functools.partial(running.namespace.get, "ConfigMap", f"{job.name}-config")
    until("the third host is named", lambda: f"{job.name}-worker-2" in config()["data"]["discover_hosts.sh"])
    # Else the kubelet takes up to a minute and a half to show the new hosts in the launcher.
    running.namespace.patch("Pod", running.launcher, {"metadata": {"annotations": {"hosts": "3"}}})
    running.until_output(f"on {job.name}-worker-2: continues from step", 1, 120)
    assert running.verdict(240) == "Succeeded", running.output
