"""A docker engine of the cluster's own, and what it needs to build without a registry: base images and `pause`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from images.engine import CONTENT
from rshagent.native import client_build

from .build import run
from .components import PAUSE_IMAGE
from .daemons import Daemon, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from .places import Places

BASES = {f"debian:{release}-slim": release for release in ("bookworm", "bullseye", "trixie")}
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_AUTHORITIES = Path("/usr/local/share/ca-certificates")  # the machine's own, that make up the bundle with Debian's
_DROPPED = ("var/cache/apt/archives", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")


class Engine:
    """dockerd without a network of its own: builds use the machine's."""

    def __init__(self, places: Places, say: Callable[[str], None]) -> None:
        self._places, self._say = places, say
        folder = places.engine
        self.environment = {**os.environ, "DOCKER_HOST": f"unix://{places.engine_socket}", "DOCKER_BUILDKIT": "0"}
        self._daemon = Daemon("dockerd", ["dockerd", "--config-file", folder / "daemon.json"], folder, folder)

    def start(self) -> None:
        """Start the engine, and make `pause` if it is not there. Raises SetupError."""
        folder = self._places.engine
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "daemon.json").write_text(json.dumps(self._configuration()))
        self._daemon.start()
        until("the docker engine's start", lambda: self._succeeds("version"), 120, self._daemon)
        archive = self._places.images / "pause.tar"
        if not archive.exists():
            self._make_pause(archive)

    def make_bases(self) -> None:
        """Make the base images that are not there. Raises SetupError."""
        for image, release in BASES.items():
            if not self._succeeds("image", "inspect", image):
                self._make_base(image, release)

    def stop(self) -> None:
        """End the engine; what it has built stays."""
        self._daemon.stop()

    def has_content(self, content: str) -> bool:
        """Whether there is an image that was built from this content."""
        asked = self._docker("image", "ls", "--quiet", "--filter", f"label={CONTENT}={content}")
        return bool(asked.stdout.strip())

    def identity(self, image: str) -> str | None:
        """Return an image's id, None where there is no such image."""
        asked = self._docker("image", "inspect", "--format", "{{.Id}}", image)
        return asked.stdout.decode().strip() if asked.returncode == 0 else None

    def save(self, images: list[str], archive: Path) -> None:
        """Write images into one archive. Raises SetupError."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        run(self._places, "docker", "save", "-o", str(archive), *images, env=self.environment, say=self._say)

    def _configuration(self) -> dict[str, object]:
        folder = self._places.engine
        return {
            "data-root": str(folder / "data"),
            "exec-root": str(folder / "exec"),
            "pidfile": str(folder / "docker.pid"),
            "hosts": [f"unix://{self._places.engine_socket}"],
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
        }

    def _make_base(self, image: str, release: str) -> None:
        self._say(f"making the image {image} with debootstrap")
        root = self._places.engine / "base"
        shutil.rmtree(root, ignore_errors=True)
        run(self._places, "debootstrap", "--variant=minbase", release, str(root), *_mirror(), say=self._say)
        # What is built in it must trust what this machine trusts.
        target = root / "etc/ssl/certs"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(_CERTIFICATES, target)
        if _AUTHORITIES.exists():
            shutil.copytree(_AUTHORITIES, root / _AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
        for name in _DROPPED:
            shutil.rmtree(root / name, ignore_errors=True)
        (root / "var/cache/apt/archives/partial").mkdir(parents=True)
        self._import(root, image)
        shutil.rmtree(root)

    def _make_pause(self, archive: Path) -> None:
        root = self._places.engine / "pause"
        root.mkdir(exist_ok=True)
        client_build.build(str(root / "pause"), sources=client_build.PAUSE)
        self._import(root, PAUSE_IMAGE, "--change", 'ENTRYPOINT ["/pause"]')
        self.save([PAUSE_IMAGE], archive)
        shutil.rmtree(root)

    def _import(self, root: Path, image: str, *options: str) -> None:
        archive = root.with_suffix(".tar")
        run(self._places, "tar", "--numeric-owner", "-C", str(root), "-cf", str(archive), ".", say=self._say)
        run(self._places, "docker", "import", *options, str(archive), image, env=self.environment, say=self._say)
        archive.unlink()

    def _docker(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["docker", *words], env=self.environment, capture_output=True, check=False)

    def _succeeds(self, *words: str) -> bool:
        return self._docker(*words).returncode == 0


def _mirror() -> list[str]:
    """Return the mirror that this machine's own packages come from, where it names one."""
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        found = re.search(r"^URIs: *(\S+)", path.read_text(), re.MULTILINE)
        if found:
            return [found[1]]
    return []
