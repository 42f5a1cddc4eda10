"""Gangs and queues: scheduler-plugins' scheduler, and what Kueue does to a job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.local.places import Places
from tests.cluster.operator import gang
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.submitted import Submitted, true_conditions
from tests.cluster.operators.programs import SCHEDULER_PLUGINS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api, Namespace
    from tests.cluster.operator.release import Release

    Submit = Callable[[MpiJob], Submitted]

Object = dict[str, Any]

BOTH = pytest.mark.parametrize("version", ["v1", "v2beta1"])
_MORE_THAN_THERE_IS = {"cpu": "100k", "memory": "100000Gi"}
_QUEUED = "kueue.x-k8s.io/queue-name"


@pytest.fixture(scope="module")
def gang_scheduler(api: Api, installed: Release) -> Iterator[None]:
    """The operator with a gang scheduler set, which runs."""
    if not SCHEDULER_PLUGINS.can_be_had and not Places.of().is_cluster_of(os.environ["KUBECONFIG"]):
        pytest.skip("the scheduler is built by Go (https://go.dev), which only a cluster of our own wants anyway")
    SCHEDULER_PLUGINS.build(print)
    (definition,) = SCHEDULER_PLUGINS.kinds()
    with api.made(definition), gang.scheduler(os.environ["KUBECONFIG"]):
        installed.upgrade({"jobs": {"gangScheduler": gang.NAME}})
        try:
            yield
        finally:
            installed.upgrade()


@BOTH
def test_a_job_is_admitted_and_put_back_as_kueue_does_it(
    release: Release, namespace: Namespace, submit: Submit, version: str
) -> None:
    node = str(release.pods()[0]["spec"]["nodeName"])
    hostname = namespace.api.call("get", f"/api/v1/nodes/{node}")["metadata"]["labels"]["kubernetes.io/hostname"]
    job = MpiJob(version).run("pi", "3600")
    job.body["metadata"]["labels"] = {_QUEUED: "night"}
    job.policy["suspend"] = True
    before = {role: spec["template"] for role, spec in job.spec["mpiReplicaSpecs"].items()}
    running = submit(job)
    running.until_condition("Suspended")
    assert not running.namespace.pods()

    # What its integration's RunWithPodSetsInfo adds to each template, by one update that also resumes the job.
    flavor = {
        "nodeSelector": {"kubernetes.io/hostname": hostname},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    about = {"labels": {"flavor": "spot"}, "annotations": {"kueue.x-k8s.io/workload": "pi-1"}}
    admitted = {"template": {"spec": flavor, "metadata": about}}
    templates = {"Launcher": admitted, "Worker": admitted}
    running.change({"spec": {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": templates}})
    running.until_condition("Running")
    pods = running.namespace.pods()
    assert len(pods) == 3
    for pod in pods:
        assert pod["spec"]["nodeSelector"] == flavor["nodeSelector"]
        assert any(one.get("key") == "spot" for one in pod["spec"]["tolerations"])
        assert pod["metadata"]["labels"]["flavor"] == "spot"
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "pi-1"

    # Preemption: suspended first, and the templates as they were when its pods are gone.
    running.change({"spec": {"runPolicy": {"suspend": True}}})
    running.namespace.until(lambda pods: not pods, "no pod of the suspended job is left")
    assert "Running" not in true_conditions(running.status())
    running.change({"spec": {"mpiReplicaSpecs": {role: {"template": _without(before[role])} for role in before}}})

    running.change({"spec": {"runPolicy": {"suspend": False}}})
    running.until_condition("Running")
    pods = running.namespace.pods()
    assert len(pods) == 3
    for pod in pods:
        assert "nodeSelector" not in pod["spec"]
        assert "flavor" not in pod["metadata"]["labels"]


@pytest.mark.release
@pytest.mark.usefixtures("gang_scheduler")
@BOTH
def test_a_gang_waits_until_there_is_room_for_all(submit: Submit, version: str) -> None:
    job = MpiJob(version).gated()
    job.policy["cleanPodPolicy"] = "All"
    job.policy["schedulingPolicy"] = {"minResources": _MORE_THAN_THERE_IS}
    running = submit(job)
    # That the scheduler has looked at every pod, and what it says of each, is what waiting looks like.
    pods = running.namespace.until(
        lambda pods: len(pods) == 3 and all(map(_is_unschedulable, pods.values())),
        "no pod of the gang is scheduled",
    )
    assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {gang.NAME}
    assert {pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for pod in pods.values()} == {job.name}
    assert not any(pod["spec"].get("nodeName") for pod in pods.values())
    assert "Running" not in true_conditions(running.status())
    spec = running.namespace.get("PodGroup", job.name, gang.GROUP)["spec"]
    assert (spec["minMember"], spec["minResources"]) == (3, _MORE_THAN_THERE_IS)

    running.change({"spec": {"runPolicy": {"schedulingPolicy": {"minResources": None}}}})
    running.until_condition("Running")
    running.go_on()
    assert running.verdict() == "Succeeded", running.output
    running.namespace.wait_deleted("PodGroup", job.name, api_version=gang.GROUP)


def _without(template: Object) -> Object:
    """A merge patch that makes a template what it was before it was admitted."""
    return {**template, "metadata": None, "spec": {**template["spec"], "nodeSelector": None, "tolerations": None}}


def _is_unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)
