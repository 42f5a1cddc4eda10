"""What delivery puts at /opt/kube: the client under both its names, or the real kubectl, never over the user's own."""

from __future__ import annotations

from typing import Any

import pytest
from pod_objects import CONTAINER, LAUNCHER, Object, launcher, named

from agents.job.model import Tool
from agents.operator.settings import PodSettings

OURS = ["mpi-delivery", "client", "client:kubectl"]
REAL = ["mpi-delivery", "client", "kubectl"]
ASKED: Object = {"spec/tools": ["kubectl"]}
SSH: Object = {"spec/transport": "ssh", f"{LAUNCHER}/{CONTAINER}/command": ["mpirun"]}


def delivery(pod: Object) -> Object:
    return named(pod["spec"]["initContainers"], "kubectl-delivery")


def settings(**given: Any) -> PodSettings:
    return PodSettings(image="registry.example:5000/team/mpi-agents:1", annotations={}, **given)


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k"])
@pytest.mark.parametrize(
    ("changes", "default", "command"),
    [
        ({}, (), OURS),
        ({}, (Tool.KUBECTL,), REAL),
        (ASKED, (), REAL),
        ({"spec/tools": []}, (Tool.KUBECTL,), OURS),
        ({"metadata/annotations": {"mpi-agents/tools": "kubectl"}}, (), REAL),
    ],
)
def test_by_exec(version: str, changes: Object, default: tuple[Tool, ...], command: list[str]) -> None:
    pod = launcher(version, changes, settings(tools=default))
    image = f"registry.example:5000/team/mpi-agents:1{'-kubectl' if command is REAL else ''}"
    assert (delivery(pod)["command"], delivery(pod)["image"]) == (command, image)
    others = [one for one in pod["spec"]["initContainers"] if one["name"] != "kubectl-delivery"]
    assert {one["image"] for one in others} == {"registry.example:5000/team/mpi-agents:1"}
    assert {"name": "mpi-job-kubectl", "mountPath": "/opt/kube", "readOnly": True} in pod["spec"]["containers"][0][
        "volumeMounts"
    ]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_by_ssh_there_is_only_what_is_asked_for(version: str) -> None:
    without, pod = (launcher(version, SSH | changes, settings()) for changes in ({}, ASKED))
    assert delivery(without)["command"] == ["mpi-delivery"]
    assert "/opt/kube" not in {one["mountPath"] for one in without["spec"]["containers"][0]["volumeMounts"]}
    assert delivery(pod)["command"] == ["mpi-delivery", "kubectl"]
    for container in (delivery(pod), pod["spec"]["containers"][0]):
        assert named(container["volumeMounts"], "mpi-job-kubectl")["mountPath"] == "/opt/kube"


@pytest.mark.parametrize("changes", [{}, ASKED])
@pytest.mark.parametrize("path", ["/opt/kube", "/opt/kube/"])
def test_what_the_template_mounts_there_stays(changes: Object, path: str) -> None:
    given = {
        f"{LAUNCHER}/template/spec/volumes": [{"name": "mine", "emptyDir": {}}],
        f"{LAUNCHER}/{CONTAINER}/volumeMounts": [{"name": "mine", "mountPath": path}],
    }
    mounts = launcher("v1", {**changes, **given})["spec"]["containers"][0]["volumeMounts"]
    assert [one["name"] for one in mounts if one["mountPath"].startswith("/opt/kube")] == ["mine"]


@pytest.mark.parametrize(
    ("image", "kubectl"),
    [
        ("mpi-agents:1", "mpi-agents:1-kubectl"),
        ("host:5000/a/mpi-agents:1.2", "host:5000/a/mpi-agents:1.2-kubectl"),
        ("host:5000/mpi-agents", "host:5000/mpi-agents:0.1.0-kubectl"),
        (f"host/mpi-agents@sha256:{'a' * 64}", "host/mpi-agents:0.1.0-kubectl"),
        (f"host/mpi-agents:2@sha256:{'a' * 64}", "host/mpi-agents:2-kubectl"),
    ],
)
def test_the_image_with_kubectl_is_that_of_the_same_tag(image: str, kubectl: str) -> None:
    assert PodSettings(image=image).image_with_kubectl == kubectl
    assert PodSettings(image=image, kubectl_image="other:3").image_with_kubectl == "other:3"
