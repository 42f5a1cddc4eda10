"""kubeflow's own example jobs, of either version, with our images instead of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.images import needs_horovod
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

# Their users' containers say nothing of what restricted wants to hear.
pytestmark = pytest.mark.pod_security("baseline")


@needs_horovod
@pytest.mark.slow
def test_the_elastic_example_trains(submit: Submit) -> None:
    job = MpiJob.of_kubeflow("../../operators/kubeflow/tensorflow-mnist-elastic.yaml").image("horovod")
    args = job.main["args"]
    args[args.index("python") :] = ["python3", "/usr/local/share/train_elastic.py", "20"]
    for pod in (job.launcher, job.worker):
        pod["terminationGracePeriodSeconds"] = 1
    running = submit(job)
    assert running.verdict(240) == "Succeeded", running.output
    assert running.status()["replicaStatuses"]["Launcher"]["succeeded"] == 1
    running.namespace.until(  # cleanPodPolicy: Running
        lambda pods: not [pod for pod in pods.values() if of.phase(pod) == "Running"], "no worker runs any more"
    )


@pytest.fixture
def gpus(api: Api) -> Iterator[None]:
    """A node that says it has two GPUs, as an administrator may have it say."""
    (node, *_) = api.call("get", "/api/v1/nodes")["items"]

    def has(count: str | None) -> None:
        status = {"capacity": {"nvidia.com/gpu": count}, "allocatable": {"nvidia.com/gpu": count}}
        api.call("patch", f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": status})

    has("2")
    yield
    has(None)


@pytest.mark.parametrize("is_probed", [False, True])
def test_horovods_example_with_workers_that_install_what_they_run(submit: Submit, gpus: None, is_probed: bool) -> None:
    """By another image and program. Without a probe the launcher has to sleep, as its user wrote it."""
    job = MpiJob.of_kubeflow("../../../unit/jobs/v1-horovod.yaml").image("openmpi4")
    for key in ("namespace", "uid", "generation"):
        del job.body["metadata"][key]
    (worker,), toleration = job.worker["containers"], job.worker["tolerations"]
    worker["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    job.worker["terminationGracePeriodSeconds"] = 200
    done = "touch /tmp/prepared && " if is_probed else ""
    worker["args"] = [f"mkdir /tmp/work && sleep 5 && cp $(command -v pi) /tmp/work/ && {done}sleep infinity"]
    job.main["args"] = [f"{'' if is_probed else 'sleep 10 && '}mpirun --allow-run-as-root -np 2 /tmp/work/pi"]
    if is_probed:
        worker["readinessProbe"] = {"exec": {"command": ["test", "-e", "/tmp/prepared"]}, "periodSeconds": 1}
    running = submit(job)
    first = running.namespace.wait(job.workers[0], of.is_ready, "is ready")
    assert toleration[0] in first["spec"]["tolerations"]
    assert first["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(job.workers))
    running.namespace.until(lambda pods: [*pods] == [running.launcher], "the launcher is left alone")


@pytest.mark.parametrize("file", ["pi.yaml", "pi-v2beta1.yaml", "prepared.yaml"])
def test_an_example_of_ours_runs_as_it_is(submit: Submit, file: str) -> None:
    running = submit(MpiJob.of_kubeflow(f"../../../../examples/kubeflow/{file}"))
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
