"""The ways to start a program by a runtime, one entry each: how the cluster is made, and what its user types. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.cluster.images import image
from tests.cluster.virtual.virtualcluster import VirtualCluster

Object = dict[str, Any]

PLAIN, SIBLING = "plain", "sibling container"


class Layout(NamedTuple):
    """Nodes, and ranks on each."""

    nodes: int
    ranks: int


class Way(NamedTuple):
    """One way. `runtime` and `wrap` may name the application: {application} by its short name, {image} in full."""

    name: str
    runtime: str = "{application}-runtime"  # the nodes' image
    wrap: str = ""  # before the program
    has_application: bool = False  # in a sibling container
    is_inside: bool = False  # typed in the application's container of the login pod, with a DVM

    def cluster(self, application: str, layout: Layout) -> VirtualCluster:
        """The cluster for an application, by its image's name in the catalog."""
        spec: Object = {"dvm": {"enabled": True}} if self.is_inside else {}
        if self.has_application:
            spec["application"] = {"containers": [{"name": "app", "image": image(application)}]}
        return cluster(self.runtime.format(application=application), layout, **spec)

    def command(self, application: str, layout: Layout, program: str) -> str:
        """The line that runs the program by the layout's ranks."""
        launch = "prun" if self.is_inside else "prterun"
        wrap = self.wrap.format(image=image(application))
        return f"{launch} --map-by ppr:{layout.ranks}:node {wrap} {program}"

    @property
    def container(self) -> str:
        """The container of the login pod where that is typed."""
        return "app" if self.is_inside else "mpi"


WAYS = (
    Way(PLAIN),
    Way(SIBLING, "runtime", "mpi-wrap", has_application=True),
    Way("prun in the container", "runtime", has_application=True, is_inside=True),
)


def cluster(runtime: str, layout: Layout, **spec: Any) -> VirtualCluster:
    """A cluster of nodes with an image, as small as a user writes it."""
    made = VirtualCluster(nodes=layout.nodes, slots=layout.ranks, name="bench", **spec)
    for container in made.spec["nodes"]["template"]["spec"]["containers"]:
        container["image"] = image(runtime)
        container["securityContext"]["capabilities"].pop("add")
    return made
