"""The ways to start a program by a runtime, one entry each: how the cluster is made, and what its user types. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.cluster.images import image
from tests.cluster.manifests import set_environ
from tests.cluster.virtual.registry import PULL, address
from tests.cluster.virtual.virtualcluster import VirtualCluster

Object = dict[str, Any]

PLAIN, SIBLING = "plain", "sibling container"
_USER = 1000  # mpiuser of the runtime's images
_STORAGE = {"name": "podman", "mountPath": "/home/mpiuser/.local/share/containers"}


class Layout(NamedTuple):
    """Nodes, and ranks on each."""

    nodes: int
    ranks: int


class Way(NamedTuple):
    """One way. Images are named as in the catalog; {application} stands for the application's."""

    name: str
    runtime: str = "{application}-runtime"  # image of the nodes' main container
    sibling: str = ""  # image of an application container beside it
    wrap: str = ""  # before the program; {image} stands for the application's in the registry
    is_inside: bool = False  # typed in the application container of the login pod, with a DVM
    podman: str = ""  # how a node runs podman: privileged or unprivileged (docs/podman.md)

    def cluster(self, application: str, layout: Layout) -> VirtualCluster:
        """The cluster for an application, by its image's name in the catalog."""
        spec: Object = {"dvm": {"enabled": True}} if self.is_inside else {}
        if self.sibling:
            name = image(self.sibling.format(application=application))
            spec["application"] = {"containers": [{"name": "app", "image": name}]}
        made = cluster(self.runtime.format(application=application), layout, **spec)
        if self.podman:
            _have_podman(made.spec["nodes"]["template"]["spec"], is_privileged=self.podman == "privileged")
        return made

    def prepare(self, application: str) -> str:
        """The line that is typed once before; "" for none."""
        return f"prterun --map-by ppr:1:node {PULL} {address(application)}" if self.podman else ""

    def command(self, application: str, layout: Layout, program: str) -> str:
        """The line that runs the program by the layout's ranks."""
        wrap = self.wrap.format(image=address(application))
        return f"{'prun' if self.is_inside else 'prterun'} --map-by ppr:{layout.ranks}:node {wrap} {program}"

    @property
    def container(self) -> str:
        """The container of the login pod where that is typed."""
        return "app" if self.is_inside else "mpi"


WAYS = (
    Way(PLAIN),
    Way(SIBLING, "runtime", "{application}", "mpi-wrap"),
    Way("prun in the container", "runtime", "{application}-runtime", "mpi-wrap", is_inside=True),
    *(
        Way(f"podman, {podman}", "runtime-podman", wrap="mpi-wrap --podman {image}", podman=podman)
        for podman in ("privileged", "unprivileged")
    ),
)


def _have_podman(pod: Object, *, is_privileged: bool) -> None:
    pod["securityContext"] = {"runAsUser": _USER, "fsGroup": _USER}
    pod["volumes"] = [{"name": _STORAGE["name"], "emptyDir": {}}]
    (container,) = pod["containers"]
    container |= {"securityContext": {"privileged": True} if is_privileged else {}, "volumeMounts": [_STORAGE]}
    set_environ(container, {"PMIX_MCA_psec": "none"})


def cluster(runtime: str, layout: Layout, **spec: Any) -> VirtualCluster:
    """A cluster of nodes with an image, as small as a user writes it."""
    made = VirtualCluster(nodes=layout.nodes, slots=layout.ranks, name="bench", **spec)
    made.main["image"] = image(runtime)
    made.main["securityContext"]["capabilities"].pop("add")
    return made
