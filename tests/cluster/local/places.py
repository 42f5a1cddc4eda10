"""Where things are: what is kept from one cluster to the next, and what a cluster leaves behind no trace of."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

DEFAULT_VERSION = "1.37.2"
MODULES = Path(__file__).parent  # of Go: a folder for each, with go.mod and go.sum


class SetupError(Exception):
    """The cluster can't be brought up; the text is one line for people."""


@dataclass(frozen=True)
class Places:
    """Folders and files of a cluster of one Kubernetes release."""

    cache: Path
    version: str

    @classmethod
    def of(cls, version: str | None = None) -> Places:
        """Return the places for a release, by default KUBERNETES_VERSION's or the one the project pins."""
        root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        version = (version or os.environ.get("KUBERNETES_VERSION") or DEFAULT_VERSION).removeprefix("v")
        if len(version.split(".")) != 3 or not version.replace(".", "").isdecimal():
            raise SetupError(f"KUBERNETES_VERSION is a whole release, as in 1.29.14, not {version!r}")
        return cls(Path(root) / "mpi-agents" / "cluster", version)

    @property
    def minor(self) -> int:
        """The release's second number."""
        return int(self.version.split(".")[1])

    @property
    def bin(self) -> Path:
        """Kubernetes' components, by their own names."""
        return self.cache / f"kubernetes-{self.version}"

    @property
    def containerd(self) -> Path:
        """containerd's programs and runc, the same for all releases."""
        return self._programs("containerd")

    @property
    def coredns(self) -> Path:
        """CoreDNS, the same for all releases."""
        return self._programs("coredns")

    def _programs(self, module: str) -> Path:
        """The folder of the programs of one of our modules, as it is required today."""
        required = hashlib.sha256((MODULES / module / "go.mod").read_bytes()).hexdigest()
        return self.cache / f"{module}-{required[:8]}"

    @property
    def images(self) -> Path:
        """Image archives for containerd."""
        return self.cache / "images"

    @property
    def engine(self) -> Path:
        """The docker engine that builds images."""
        return self.cache / "engine"

    @property
    def engine_socket(self) -> Path:
        """What DOCKER_HOST names."""
        return self.engine / "docker.sock"

    @property
    def content(self) -> Path:
        """containerd's own data: images stay from one cluster to the next."""
        return self.cache / "containerd"

    @property
    def run(self) -> Path:
        """What belongs to one cluster alone, and goes with it."""
        return self.cache / "run"

    @property
    def logs(self) -> Path:
        """A file for each daemon."""
        return self.run / "log"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.run / "pki"

    @property
    def containerd_socket(self) -> Path:
        """What the kubelet speaks to."""
        return self.run / "containerd.sock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.run / "admin.conf"

    def is_cluster_of(self, kubeconfig: str) -> bool:
        """Whether this kubeconfig, by whatever path, is the administrator's: a cluster of our own."""
        try:
            return os.path.samefile(kubeconfig, self.kubeconfig)
        except OSError:
            return False
