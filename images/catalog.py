"""Which images there are: what each is built from, and how it is called. Nothing here talks to an engine."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_IMAGES = os.path.join(ROOT, "images")
_EXAMPLES = os.path.join(_IMAGES, "examples")
NPB = "npb.tar.gz"


@dataclass(frozen=True, slots=True)
class Image:
    """One image. `context` is the folder that is sent to the engine, `dockerfile` lies in it."""

    name: str
    repository: str
    dockerfile: str
    context: str
    variant: str = ""  # follows the version in the tag
    has_kubectl: bool = False  # its context is the Dockerfile and a kubectl
    given: str = ""  # its context is the Dockerfile and a file that the user provides, under this name
    stands_on: Mapping[str, str] = field(default_factory=dict)  # others of these images, by its Dockerfile's arguments
    is_kept: bool = False  # takes long to build, or is large: not built again while `content` stays the same

    def bases(self) -> dict[str, str]:
        """The images of others that it is built from, by the build arguments that name them: pinned by digest."""
        with open(os.path.join(self.context, self.dockerfile), encoding="utf-8") as file:
            text = file.read()
        used = set(re.findall(r"^FROM \$\{(\w+)\}", text, re.MULTILINE))
        found = re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE)
        return {name: image for name, image in found if name in used and not image.startswith(AGENTS.repository)}

    def by_tag(self) -> dict[str, str]:
        """The same by their tags alone, for an engine that has its own."""
        return {name: pinned.partition("@")[0] for name, pinned in self.bases().items()}

    def tag(self, version: str, prefix: str = "") -> str:
        """The image's full name, under `prefix` (a registry's host and path) if there is one."""
        name = f"{prefix.rstrip('/')}/{self.repository}" if prefix else self.repository
        return f"{name}:{version}-{self.variant}" if self.variant else f"{name}:{version}"

    def content(self, *options: object, given: str = "") -> str:
        """A hash of the Dockerfile, of the files that it copies (`given`: the user's), and of the build's arguments."""
        digest = hashlib.sha256(repr(options).encode())
        for other in self.stands_on.values():
            digest.update(IMAGES[other].content().encode())
        with open(os.path.join(self.context, self.dockerfile), "rb") as file:
            text = file.read()
        digest.update(text)
        for line in text.decode().splitlines():
            words = line.split()
            if words[:1] == ["COPY"] and "--from=" not in line:
                for name in (word for word in words[1:-1] if not word.startswith("--")):
                    path = given if name == self.given else os.path.join(self.context, name)
                    for each in _files(path):
                        with open(each, "rb") as file:
                            digest.update(hashlib.sha256(file.read()).digest())
        return digest.hexdigest()


def _example(name: str, folder: str = "", *, given: str = "", is_kept: bool = False, **stands_on: str) -> Image:
    """An image of `images/examples`, from the Dockerfile in the folder of its own name if no other is given."""
    context, dockerfile = _EXAMPLES, f"{folder or name}/Dockerfile"
    if given:
        context, dockerfile = os.path.split(os.path.join(_EXAMPLES, dockerfile))
    return Image(
        name,
        f"mpi-agents-example-{name}",
        dockerfile,
        context,
        given=given,
        stands_on=stands_on,
        is_kept=is_kept,
    )


AGENTS = Image("mpi-agents", "mpi-agents", "images/mpi-agents.Dockerfile", ROOT)
KUBECTL = Image(
    "mpi-agents-kubectl",
    "mpi-agents",
    "kubectl.Dockerfile",
    _IMAGES,
    variant="kubectl",
    has_kubectl=True,
    stands_on={"AGENTS": AGENTS.name},
)
EXAMPLES = (
    *(_example(name) for name in ("openmpi4", "openmpi5", "mpich", "intel")),
    _example("horovod", is_kept=True),
    *(_example(name) for name in ("openmpi4-ssh", "openmpi5-ssh", "runtime", "mpi", "mpi4")),
    *(_example(f"{name}-ssh", "ssh", MPI=name) for name in ("mpich", "intel")),
    _example("npb", given=NPB, is_kept=True),
    _example("gromacs", is_kept=True),
    # Applications with the runtime, where the image of their own name has none.
    _example("mpi-runtime", "mpi", ON="runtime"),
    _example("npb-runtime", "npb", ON="runtime", given=NPB, is_kept=True),
    _example("gromacs-runtime", "gromacs", ON="runtime", is_kept=True),
    _example("runtime-podman", RUNTIME="runtime", AGENTS=AGENTS.name, is_kept=True),
    _example("canopie", AGENTS=AGENTS.name),
    _example("canopie-podman", "runtime-podman", RUNTIME="canopie", AGENTS=AGENTS.name, is_kept=True),
)
# As little as an image can have, so that tests show what the delivered tools need of it.
BARE = tuple(
    Image(f"bare-{name}", f"mpi-agents-bare-{name}", f"{name}.Dockerfile", os.path.join(_IMAGES, "bare"))
    for name in ("static", "musl", "glibc231")
)
IMAGES = {image.name: image for image in (AGENTS, KUBECTL, *EXAMPLES, *BARE)}


def _files(path: str) -> list[str]:
    """The file itself, or a folder's files except Python's caches."""
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    return sorted(one for one in found if "__pycache__" not in one)


def in_order(names: tuple[str, ...]) -> list[Image]:
    """The images of these names, mpi-agents for none, each after the one that it stands on."""
    wanted = set(names) or {AGENTS.name}
    while more := {other for name in wanted for other in IMAGES[name].stands_on.values()} - wanted:
        wanted |= more
    return [image for name, image in IMAGES.items() if name in wanted]


def version() -> str:
    """The project's version."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return str(tomllib.load(file)["project"]["version"])
