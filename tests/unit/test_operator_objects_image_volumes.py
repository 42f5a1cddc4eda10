"""Pods that get our programs by image volumes: what is mounted where, and which containers are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mpijobs import job
from pod_objects import CONTAINER, LAUNCHER, Object, named, variables
from pod_objects import launcher as made_launcher

from agents.job.model import Tool
from agents.operator import objects
from agents.operator.settings import PodSettings

COPIED = PodSettings(image="r/mpi-agents:1", image_pull_secrets=("ours",), image_pull_policy="Always", annotations={})
MOUNTED = replace(COPIED, has_image_volumes=True)
KUBECTL: Object = {"spec/tools": ["kubectl"]}
SSH: Object = {"spec/transport": "ssh", f"{LAUNCHER}/{CONTAINER}/command": ["mpirun"]}
APP: Object = {"spec/application/containers": [{"name": "app", "image": "example/app"}]}


def image(reference: str = "r/mpi-agents:1") -> Object:
    return {"name": "mpi-agents-image", "image": {"reference": reference, "pullPolicy": "Always"}}


def mounts(container: Object) -> dict[str, Object]:
    return {one["mountPath"]: one for one in container["volumeMounts"]}


def images(pod: Object) -> list[Object]:
    return [one for one in pod["spec"]["volumes"] if "image" in one]


def launcher(version: str, changes: Object, settings: PodSettings = MOUNTED) -> Object:
    return made_launcher(version, changes, settings)


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k", "virtual"])
def test_a_launcher_by_exec_has_the_client_of_the_image(version: str) -> None:
    pod = launcher(version, {})
    main, (hub, delivery) = pod["spec"]["containers"][0], pod["spec"]["initContainers"]
    assert images(pod) == [image()]
    assert mounts(main)["/opt/kube"] == {
        "name": "mpi-agents-image",
        "mountPath": "/opt/kube",
        "subPath": "opt/kube",
        "readOnly": True,
    }
    assert delivery["command"] == ["mpi-delivery", "none"]
    assert variables(delivery)["TARGET_DIR"] == "/run/mpi-agents"
    assert variables(hub)["MPI_AGENT_HOSTS"] == "/run/mpi-agents/hosts"
    for container in (hub, delivery):
        assert "/opt/kube" not in mounts(container)
        assert mounts(container)["/run/mpi-agents"] == {"name": "mpi-agents-run", "mountPath": "/run/mpi-agents"}
    assert "mpi-job-kubectl" not in {one["name"] for one in pod["spec"]["volumes"]}


@pytest.mark.parametrize(("changes", "default"), [(KUBECTL, ()), ({}, (Tool.KUBECTL,)), (SSH | KUBECTL, ())])
def test_the_real_kubectl_is_in_its_own_image(changes: Object, default: tuple[Tool, ...]) -> None:
    pod = launcher("v2beta1", changes, replace(MOUNTED, tools=default))
    assert images(pod) == [image("r/mpi-agents:1-kubectl")]
    assert mounts(pod["spec"]["containers"][0])["/opt/kube"]["subPath"] == "usr/local/lib/mpi-agents"
    delivery = named(pod["spec"]["initContainers"], "kubectl-delivery")
    assert delivery["image"] == "r/mpi-agents:1"
    assert "kubectl" not in delivery["command"]


def test_by_ssh_nothing_is_mounted_that_nobody_asked_for() -> None:
    assert launcher("v2beta1", SSH) == launcher("v2beta1", SSH, COPIED)


def pods(changes: Object, settings: PodSettings) -> tuple[Object, Object]:
    """A virtual cluster's login pod and a node."""
    cluster = job("virtual", changes)
    return objects.launcher(cluster, settings), objects.worker(cluster, 0, settings)


def test_no_container_copies_what_application_containers_need() -> None:
    for pod in pods(APP, MOUNTED):
        runtime, app = pod["spec"]["containers"]
        assert "mpi-wrap-delivery" not in {one["name"] for one in pod["spec"].get("initContainers", [])}
        assert app["command"][:2] == ["/opt/mpi-agents/mpi-runner", "--socket"]
        for container in (runtime, app):
            mount = mounts(container)["/opt/mpi-agents"]
            assert (mount["subPath"], mount["readOnly"]) == ("usr/local/lib/mpi-agents", True)
            assert named(pod["spec"]["volumes"], mount["name"])["image"] == image()["image"]
        wrap = mounts(runtime)["/usr/local/bin/mpi-wrap"]
        assert (wrap["name"], wrap["subPath"]) == ("mpi-agents-wrap", "mpi-wrap")
        config = named(pod["spec"]["volumes"], "mpi-agents-wrap")["configMap"]
        assert config == {"name": "vc-config", "items": [{"key": "mpi-wrap", "path": "mpi-wrap", "mode": 0o555}]}


@pytest.mark.parametrize("settings", [COPIED, MOUNTED])
def test_the_config_has_the_script_whatever_the_setting(settings: PodSettings) -> None:
    """Pods from before a change mount it."""
    data = objects.config_map(job("virtual", APP), settings, [0])["data"]
    assert data["mpi-wrap"] == '#!/bin/sh\nexec /opt/mpi-agents/mpi-wrap "$@"\n'
    assert "mpi-wrap" not in objects.config_map(job("virtual", {}), settings, [0])["data"]


def test_pull_secrets_are_those_of_the_template_and_ours() -> None:
    changes: Any = {**APP, "spec/nodes/template/spec/imagePullSecrets": [{"name": "theirs"}]}
    _, node = pods(changes, MOUNTED)
    assert node["spec"]["imagePullSecrets"] == [{"name": "theirs"}, {"name": "ours"}]
    assert "initContainers" not in node["spec"]


@pytest.mark.parametrize("changes", [{}, APP])
def test_a_change_of_the_setting_replaces_no_pod(changes: Object) -> None:
    """The planner compares this annotation of a pod with its job."""
    before, after = pods(changes, COPIED), pods(changes, MOUNTED)
    assert before != after
    annotations = [one["metadata"]["annotations"] for one in (*before, *after)]
    assert annotations[:2] == annotations[2:]


@pytest.mark.parametrize(
    ("version", "changes", "default", "is_copied"),
    [
        ("v1", {}, (), True),
        ("v2beta1", SSH, (), False),
        ("v2beta1", SSH, (Tool.KUBECTL,), True),
        ("v2beta1", SSH | KUBECTL, (), True),
        ("virtual", APP, (), True),
    ],
)
def test_which_jobs_have_programs_copied(
    version: str, changes: Object, default: tuple[Tool, ...], is_copied: bool
) -> None:
    made = job(version, {"spec/transport": "exec"} | changes)
    assert objects.copies_programs(made, replace(COPIED, tools=default)) is is_copied
    assert not objects.copies_programs(made, replace(MOUNTED, tools=default))
