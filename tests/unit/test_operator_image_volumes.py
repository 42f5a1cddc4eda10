"""Whether pods get our programs by image volumes: what decides it, and when it is found out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.kube.errors import ApiError, RejectedError, UnavailableError
from agents.operator.image_volumes import ImageVolumes, ProgramDelivery, obstacle
from agents.operator.settings import PodSettings

Object = dict[str, Any]

AUTO, IMAGE, INIT = ProgramDelivery.AUTO, ProgramDelivery.IMAGE, ProgramDelivery.INIT
NEW = "v1.36.0"


def node(kubelet: str = NEW, runtime: str = "containerd://2.1.0", name: str = "n", **spec: Any) -> Object:
    info = {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime, "operatingSystem": "linux"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"nodeInfo": info}}


def windows() -> Object:
    found = node("v1.34.0", "containerd://1.7.20")
    found["status"]["nodeInfo"]["operatingSystem"] = "windows"
    return found


@pytest.mark.parametrize(
    ("server", "nodes"),
    [
        (NEW, [node()]),
        ("v1.37.2+k3s1", [node("v1.37.2+k3s1", "containerd://2.2.0-k3s1"), node(runtime="cri-o://1.33.1")]),
        ("v2.0.0", [node("v2.0.0", "containerd://10.0")]),
        (NEW, [node("v1.20.0", unschedulable=True), windows(), node()]),
    ],
)
def test_nothing_is_in_the_way(server: str, nodes: list[Object]) -> None:
    assert obstacle(server, nodes) == ""


@pytest.mark.parametrize(
    ("server", "nodes", "why"),
    [
        ("v1.35.9", [node()], "the API server is v1.35.9, and image volumes need Kubernetes 1.36"),
        ("", [node()], "the API server is of an unknown version, and image volumes need Kubernetes 1.36"),
        (NEW, [], "no node is schedulable"),
        (NEW, [node(unschedulable=True), windows()], "no node is schedulable"),
        (NEW, [node(), node("v1.35.4", name="old")], "node old has kubelet v1.35.4, and image volumes need 1.36"),
        (NEW, [node(""), node()], "node n has kubelet of an unknown version, and image volumes need 1.36"),
        (NEW, [node(runtime="containerd://2.0.5")], "node n has containerd 2.0.5, and image volumes need 2.1"),
        (NEW, [node(runtime="containerd://1.7.20")], "node n has containerd 1.7.20, and image volumes need 2.1"),
        (NEW, [node(runtime="cri-o://1.32.9")], "node n has cri-o 1.32.9, and image volumes need 1.33"),
        (
            NEW,
            [node(runtime="docker://28.0.1")],
            "node n has the container runtime docker://28.0.1, and image volumes need containerd 2.1 or CRI-O 1.33",
        ),
        (
            NEW,
            [{"metadata": {"name": "bare"}, "status": {"nodeInfo": {"kubeletVersion": NEW}}}],
            "node bare has the container runtime unknown, and image volumes need containerd 2.1 or CRI-O 1.33",
        ),
    ],
)
def test_what_is_in_the_way_is_named(server: str, nodes: list[Object], why: str) -> None:
    assert obstacle(server, nodes) == why


class Cluster:
    """An API server with nodes."""

    def __init__(self, *nodes: Object, error: ApiError | None = None) -> None:
        self.nodes, self.error, self.requests = list(nodes), error, 0

    def get(self, path: str) -> Object:
        assert path == "/version"
        return {"gitVersion": NEW}

    def items(self, path: str, keep: Callable[[Object], Object]) -> Iterator[Object]:
        assert path == "/api/v1/nodes"
        self.requests += 1
        if self.error is not None:
            raise self.error
        yield from map(keep, self.nodes)


def found(volumes: ImageVolumes) -> tuple[bool, str]:
    settings = volumes.applied(PodSettings("i"))
    return settings.has_image_volumes, settings.fallback


def looked(cluster: Cluster) -> ImageVolumes:
    volumes = ImageVolumes(cluster, AUTO, threading.Event())  # type: ignore[arg-type]
    volumes.look()
    return volumes


@pytest.mark.parametrize(("wanted", "is_used"), [(IMAGE, True), (INIT, False)])
def test_a_given_delivery_asks_for_no_nodes(wanted: ProgramDelivery, is_used: bool) -> None:
    cluster = Cluster(node())
    volumes = ImageVolumes(cluster, wanted, threading.Event())  # type: ignore[arg-type]
    volumes.start()
    assert found(volumes) == (is_used, "")
    assert cluster.requests == 0


def test_all_nodes_count() -> None:
    assert found(looked(Cluster(node(), node(), node()))) == (True, "")
    volumes = looked(Cluster(node(), node(), node("v1.33.0", name="old")))
    assert found(volumes) == (False, "node old has kubelet v1.33.0, and image volumes need 1.36")


def test_a_node_that_joins_or_leaves_changes_it() -> None:
    cluster = Cluster(node())
    volumes = looked(cluster)
    cluster.nodes.append(node(runtime="containerd://1.7.1", name="old"))
    volumes.look()
    assert found(volumes) == (False, "node old has containerd 1.7.1, and image volumes need 2.1")
    cluster.nodes.pop()
    volumes.look()
    assert found(volumes) == (True, "")


@pytest.mark.parametrize("error", [RejectedError("nodes is forbidden", 403), UnavailableError("no answer from x")])
def test_nodes_that_cannot_be_listed_are_no_image_volumes(error: ApiError) -> None:
    assert found(looked(Cluster(node(), error=error))) == (False, f"the nodes can't be listed: {error}")


def test_an_outage_changes_nothing_and_a_lost_right_does() -> None:
    cluster = Cluster(node())
    volumes = looked(cluster)
    cluster.error = UnavailableError("no answer from x")
    volumes.look()
    assert found(volumes) == (True, "")
    cluster.error = RejectedError("nodes is forbidden", 403)
    volumes.look()
    assert found(volumes) == (False, "the nodes can't be listed: nodes is forbidden")
