"""The cluster as a whole: up, down, and the images in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

from . import components, network, pki
from .build import build, install_packages, run
from .daemons import until
from .engine import Engine
from .pki import NODE
from .places import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .daemons import Daemon
    from .places import Places

_CGROUPS = "/sys/fs/cgroup"
_START_S = 180.0  # of a daemon whose program may have to be read from the disk first
_PORTS = {2379: "etcd", 2380: "etcd", 6443: "the API server", 10250: "the kubelet"}


class LocalCluster:
    """One node with everything on it. Its daemons are there for tests to kill and start."""

    def __init__(self, places: Places, say: Callable[[str], None] = lambda _text: None) -> None:
        self.places, self._say = places, say
        self.daemons: dict[str, Daemon] = components.daemons(places)
        self.engine = Engine(places, say)

    @property
    def is_up(self) -> bool:
        """Say whether the node's daemons all live."""
        return all(daemon.pid is not None for daemon in self.daemons.values())

    def prepare(self) -> None:
        """Install Debian's packages, and start the engine. Raises SetupError."""
        noted = self.places.run / "version"
        if noted.exists() and noted.read_text() != self.places.version:
            raise SetupError(f"Kubernetes {noted.read_text()} is up already: take it down first (make cluster-down)")
        install_packages(self.places, self._say)
        self.engine.start()

    def up(self) -> None:
        """Bring the cluster up, once it is prepared; what runs already is left alone. Raises SetupError."""
        build(self.places, self._say)
        if not self.is_up:
            if not any(daemon.pid for daemon in self.daemons.values()):
                _check_ports()
            began = time.monotonic()
            self._start()
            self._say(f"Kubernetes {self.places.version} is ready after {time.monotonic() - began:.0f} s")

    def _start(self) -> None:
        components.write_configuration(self.places)
        (self.places.run / "version").write_text(self.places.version)
        pki.make(self.places)
        network.up(self.places.run)
        self.daemons["containerd"].start()
        until("containerd's start", lambda: self._ctr("version") is not None, _START_S, self.daemons["containerd"])
        self.load([self.places.images / "pause.tar"])
        self.daemons["etcd"].start()
        until("etcd's start", _is_etcd_well, _START_S, self.daemons["etcd"])
        self.start_api_server()
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet", "coredns"):
            self.daemons[name].start()
        until("the node's becoming Ready", self._is_node_ready, _START_S, self.daemons["kubelet"])
        account = ("get", "--namespace=default", "serviceaccount", "default")
        until("the controllers' start", lambda: self.kubectl(*account) is not None, _START_S)

    def start_api_server(self, within_s: float = _START_S) -> None:
        """Start the API server, unless it runs, and wait until it says it is ready. Raises SetupError."""
        daemon = self.daemons["kube-apiserver"]
        daemon.start()
        until("the API server's start", lambda: self.kubectl("get", "--raw=/readyz") is not None, within_s, daemon)

    def down(self) -> None:
        """End everything, and take away what the cluster made; binaries and images stay."""
        self.engine.stop()
        for name in reversed(components.NAMES):
            if name == "kube-apiserver":
                self._end_containers()
            self.daemons[name].stop()
        self._unmount()
        network.down(self.places.run)
        self._remove_cgroups()
        shutil.rmtree(self.places.run, ignore_errors=True)
        for name in ("sandboxes", "containers"):
            shutil.rmtree(self.places.content / "io.containerd.grpc.v1.cri" / name, ignore_errors=True)

    def load(self, archives: list[Path]) -> None:
        """Put image archives into the node. Raises SetupError."""
        for archive in archives:
            run(self.places, *self.ctr("images", "import", str(archive)), say=self._say)

    def load_built(self, images: list[str]) -> None:
        """Put images of the engine into the node, but those that it has already. Raises SetupError."""
        noted = self.places.content / "loaded.json"
        loaded: dict[str, str] = json.loads(noted.read_text()) if noted.exists() else {}
        found = {image: self.engine.identity(image) for image in images}
        unknown = [image for image, identity in found.items() if identity is None]
        if unknown:
            raise SetupError(f"the engine has no image {', '.join(unknown)}")
        missing = [image for image, identity in found.items() if loaded.get(image) != identity]
        if not missing:
            return
        self._say(f"loading {', '.join(missing)}")
        archive = self.places.images / "loading.tar"
        self.engine.save(missing, archive)
        self.load([archive])
        archive.unlink()
        noted.write_text(json.dumps(loaded | {image: found[image] for image in missing}))

    def ctr(self, *words: str) -> list[str]:
        """Return a command line of containerd's own client."""
        return [f"{self.places.containerd}/ctr", "-a", str(self.places.containerd_socket), "-n", "k8s.io", *words]

    def kubectl(self, *words: str) -> str | None:
        """Return what kubectl prints, None where it fails."""
        command = [str(self.places.bin / "kubectl"), f"--kubeconfig={self.places.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self._environment())
        return done.stdout if done.returncode == 0 else None

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.places.run)}  # kubectl keeps a cache there

    def _is_node_ready(self) -> bool:
        condition = '{.status.conditions[?(@.type=="Ready")].status}'
        return self.kubectl("get", "node", NODE, f"--output=jsonpath={condition}") == "True"

    def _ctr(self, *words: str) -> list[str] | None:
        done = subprocess.run(self.ctr(*words), capture_output=True, text=True, check=False)
        return done.stdout.split() if done.returncode == 0 else None

    def _end_containers(self) -> None:
        """End what the kubelet left running, and have containerd forget it."""
        if self.daemons["containerd"].pid is None:
            return
        deadline = time.monotonic() + 20
        while (tasks := self._ctr("tasks", "list", "-q")) and time.monotonic() < deadline:
            for task in tasks:
                self._ctr("tasks", "kill", "--signal", "KILL", task)
            for task in tasks:
                self._ctr("tasks", "delete", "--force", task)
        for container in self._ctr("containers", "list", "-q") or ():
            self._ctr("containers", "delete", container)

    def _unmount(self) -> None:
        with open("/proc/mounts") as file:
            points = [line.split()[1] for line in file]
        ours = (f"{self.places.run}/", f"{self.places.content}/", f"{self.places.engine}/")
        for point in sorted((point for point in points if point.startswith(ours)), reverse=True):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)

    def _remove_cgroups(self) -> None:
        for top, folders, _ in os.walk(_CGROUPS):
            if "kubepods" in folders:
                for folder, _, _ in os.walk(os.path.join(top, "kubepods"), topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
                folders.remove("kubepods")


def _is_etcd_well() -> bool:
    try:
        with urllib.request.urlopen(f"{components.ETCD}/health", timeout=1) as answer:
            return bool(json.load(answer)["health"] == "true")
    except OSError:
        return False


def _check_ports() -> None:
    """A service of the machine's own in the place of ours would go unnoticed. Raises SetupError."""
    for port, name in _PORTS.items():
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                raise SetupError(f"port {port} is where {name} of a cluster of our own would be, and is taken")
