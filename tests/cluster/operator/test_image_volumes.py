"""How our programs come into a job's pods: by image volumes where the cluster has them, else by init containers."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.virtual.registry import PASSWORD, PRIVATE, USER, address, registry
from tests.cluster.virtual.test_application import BY_NODE, TWO, written
from tests.cluster.virtual.virtualcluster import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Api, Namespace
    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

READ_ONLY = """
touch /opt/kube/x 2>/dev/null && exit 9
cat /opt/kube/hosts
/opt/kube/kubectl get pods -o name
exec mpirun -n 2 pi
"""


def delivered_by(init: str) -> dict[str, Any]:
    """The chart's values for a delivery."""
    return {"jobs": {"programDelivery": init}}


def images(running: Submitted, pod: str) -> list[str]:
    """The images that a pod has as volumes."""
    volumes = running.namespace.get("Pod", pod)["spec"]["volumes"]
    return [one["image"]["reference"] for one in volumes if "image" in one]


def containers(running: Submitted, pod: str) -> list[str]:
    """A pod's init containers."""
    return [one["name"] for one in running.namespace.get("Pod", pod)["spec"].get("initContainers", [])]


def read_only(version: str, **more: Any) -> MpiJob:
    """A job whose containers have a read-only root file system, and an emptyDir at /tmp."""
    job = MpiJob(version, **more).command("/bin/sh", "-c", READ_ONLY)
    for spec in (job.launcher, job.worker):
        spec["volumes"] = [{"name": "tmp", "emptyDir": {}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
        spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = True
    return job


def has_image_volumes(api: Api) -> bool:
    """Whether the cluster has them: its nodes are as new as its API server."""
    return int(api.call("get", "/version")["minor"].rstrip("+")) >= 36


def ran(running: Submitted) -> None:
    """Check what the job has printed."""
    assert running.verdict() == "Succeeded", running.output
    addresses = [line.split("\t")[1] for line in running.output.splitlines() if "\tpi-worker-" in line]
    assert addresses == ["pi-worker-0", "pi-worker-1"]
    assert "pod/pi-worker-1" in running.output.splitlines()
    assert sorted(running.ranks()) == [0, 1]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_has_the_client_in_the_way_that_the_cluster_allows(api: Api, submit: Submit, version: str) -> None:
    running = submit(read_only(version))
    ran(running)
    (launcher,) = running.namespace.pods("mpi-agents/role=launcher")
    found = images(running, launcher["metadata"]["name"])
    events = dict(running.events())
    if has_image_volumes(api):
        assert (len(found), "ProgramsCopied" in events) == (1, False)
    else:
        assert found == []
        assert "the API server is v1." in events["ProgramsCopied"]


@pytest.mark.alone
def test_another_delivery_is_for_new_pods_and_leaves_running_ones(release: Release, submit: Submit) -> None:
    running = submit(read_only("v1").gated())
    running.until_condition("Running")
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.namespace.pods()}
    try:
        release.upgrade(delivered_by("init"))
        copied = submit(read_only("v2beta1", name="copied").command("mpirun", "-n", "2", "pi"))
        assert copied.verdict() == "Succeeded", copied.output
        (launcher,) = copied.namespace.pods("job-name=copied-launcher")
        assert images(copied, launcher["metadata"]["name"]) == []
        assert "ProgramsCopied" not in dict(copied.events())
        pods = running.namespace.pods("mpi-job-name=pi")
        assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods} == before
        running.namespace.exec_in("pi-launcher", ["touch", "/tmp/go"], "mpi")
        ran(running)
    finally:
        release.upgrade()


@pytest.mark.alone
def test_a_node_without_them_has_all_jobs_programs_copied(api: Api, release: Release, submit: Submit) -> None:
    """It has no kubelet: the operator believes what it says of itself."""
    info = dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion", "architecture"), ""
    )
    info |= {"kubeletVersion": "v1.37.0", "containerRuntimeVersion": "containerd://1.7.20", "operatingSystem": "linux"}
    old = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "old"}, "status": {"nodeInfo": info}}
    api.call("post", "/api/v1/nodes", old)
    try:
        release.upgrade({"podAnnotations": {"looks": "again"}})
        running = submit(read_only("v1"))
        assert "node old has containerd 1.7.20" in running.until_event("ProgramsCopied")
        ran(running)
        assert images(running, "pi-launcher") == []
    finally:
        api.call("delete", "/api/v1/nodes/old")
        release.upgrade()


@pytest.mark.alone
def test_a_private_registry_serves_them_with_the_pull_secret(
    api: Api, release: Release, new_namespace: Callable[[str], Namespace]
) -> None:
    """In a node's pod the image volume alone is of the registry: no container of ours is there."""
    namespace = new_namespace("restricted")
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = json.dumps({"auths": {PRIVATE: {"auth": auth}}})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "puller"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config},
    }
    given = [f"--image={address('mpi-agents', PRIVATE)}", "--program-delivery=image"]
    try:
        with registry("mpi-agents", host=PRIVATE):
            release.upgrade({"operator": {"extraArgs": given}})
            refused = Running(namespace, written("exec")).start()
            namespace.wait("vc-node-0", lambda pod: "ErrImagePull" in str(pod["status"]), "it may not pull the image")
            namespace.delete("VirtualCluster", "vc", api_version="mpi-agents.io/v1alpha1")
            refused.until_gone()
            refused.until_nothing_left()
            namespace.apply([secret])
            release.upgrade({"operator": {"extraArgs": [*given, "--image-pull-secret=puller"]}})
            running = Running(namespace, written("exec")).start()
            running.until_ready(2)
            assert images(running, "vc-node-0") == [address("mpi-agents", PRIVATE)]
            assert "mpi-wrap-delivery" not in containers(running, "vc-node-0")
            assert running.hosts(f"prterun {BY_NODE} mpi-wrap --container app") == TWO
    finally:
        release.upgrade()
