"""Which images there are: what each is built from, and how it is called. Nothing here talks to an engine."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_IMAGES = os.path.join(ROOT, "images")
_EXAMPLES = os.path.join(_IMAGES, "examples")


@dataclass(frozen=True, slots=True)
class Image:
    """One image. `context` is the folder that is sent to the engine, `dockerfile` lies in it."""

    name: str
    repository: str
    dockerfile: str
    context: str
    variant: str = ""  # follows the version in the tag
    has_kubectl: bool = False  # its context is the Dockerfile and a kubectl
    stands_on: str = ""  # another of these images, by name
    argument: str = ""  # by which its Dockerfile is told that one

    def tag(self, version: str, prefix: str = "") -> str:
        """The image's full name, under `prefix` (a registry's host and path) if there is one."""
        name = f"{prefix.rstrip('/')}/{self.repository}" if prefix else self.repository
        return f"{name}:{version}-{self.variant}" if self.variant else f"{name}:{version}"


AGENTS = Image("mpi-agents", "mpi-agents", "images/mpi-agents.Dockerfile", ROOT)
KUBECTL = Image(
    "mpi-agents-kubectl",
    "mpi-agents",
    "kubectl.Dockerfile",
    _IMAGES,
    variant="kubectl",
    has_kubectl=True,
    stands_on=AGENTS.name,
    argument="AGENTS",
)
EXAMPLES = tuple(
    Image(name, f"mpi-agents-example-{name}", f"{name}/Dockerfile", _EXAMPLES)
    for name in ("openmpi4", "openmpi5", "mpich", "intel", "horovod", "openmpi4-ssh", "openmpi5-ssh")
)
_WITH_SSHD = tuple(
    Image(f"{name}-ssh", f"mpi-agents-example-{name}-ssh", "ssh/Dockerfile", _EXAMPLES, stands_on=name, argument="MPI")
    for name in ("mpich", "intel")
)
# As little as an image can have, so that tests show what the delivered tools need of it.
BARE = tuple(
    Image(f"bare-{name}", f"mpi-agents-bare-{name}", f"{name}.Dockerfile", os.path.join(_IMAGES, "bare"))
    for name in ("static", "musl", "glibc231")
)
IMAGES = {image.name: image for image in (AGENTS, KUBECTL, *EXAMPLES, *_WITH_SSHD, *BARE)}


def in_order(names: tuple[str, ...]) -> list[Image]:
    """The images of these names, mpi-agents for none, each after the one that it stands on."""
    wanted = set(names) or {AGENTS.name}
    wanted |= {IMAGES[name].stands_on for name in wanted}
    return [image for name, image in IMAGES.items() if name in wanted]


def version() -> str:
    """The project's version."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return str(tomllib.load(file)["project"]["version"])
