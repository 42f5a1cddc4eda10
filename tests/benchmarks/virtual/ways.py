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
    """One way. Images are named as in the catalog; {application} stands for the application's."""

    name: str
    runtime: str = "{application}-runtime"  # image of the nodes' main container
    sibling: str = ""  # image of an application container beside it
    wrap: str = ""  # before the program
    is_inside: bool = False  # typed in the application container of the login pod, with a DVM

    def cluster(self, application: str, layout: Layout) -> VirtualCluster:
        """The cluster for an application, by its image's name in the catalog."""
        spec: Object = {"dvm": {"enabled": True}} if self.is_inside else {}
        if self.sibling:
            name = image(self.sibling.format(application=application))
            spec["application"] = {"containers": [{"name": "app", "image": name}]}
        return cluster(self.runtime.format(application=application), layout, **spec)

    def command(self, layout: Layout, program: str) -> str:
        """The line that runs the program by the layout's ranks."""
        return f"{'prun' if self.is_inside else 'prterun'} --map-by ppr:{layout.ranks}:node {self.wrap} {program}"

    @property
    def container(self) -> str:
        """The container of the login pod where that is typed."""
        return "app" if self.is_inside else "mpi"


WAYS = (
    Way(PLAIN),
    Way(SIBLING, "runtime", "{application}", "mpi-wrap"),
    Way("prun in the container", "runtime", "{application}-runtime", "mpi-wrap", is_inside=True),
)


def cluster(runtime: str, layout: Layout, **spec: Any) -> VirtualCluster:
    """A cluster of nodes with an image, as small as a user writes it."""
    made = VirtualCluster(nodes=layout.nodes, slots=layout.ranks, name="bench", **spec)
    for container in made.spec["nodes"]["template"]["spec"]["containers"]:
        container["image"] = image(runtime)
        container["securityContext"]["capabilities"].pop("add")
    return made
