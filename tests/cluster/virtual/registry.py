"""A registry on the node of a cluster of our own, with images of ours: podman pulls from there, or containerd."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.images import image
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.network import GATEWAY
from tests.cluster.local.places import Places
from tests.cluster.operators.programs import REGISTRY
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = f"{GATEWAY}:5001"
PULL = "podman pull -q --tls-verify=false"
PRIVATE = "127.0.0.1:5003"  # containerd calls this machine without TLS
USER, PASSWORD = "puller", "secret"
_HASH = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"  # of PASSWORD
_PUSH_S = 300.0


def address(name: str, host: str = ADDRESS) -> str:
    """Where an image of `images/catalog.py` is in the registry."""
    return f"{host}/{name}:1"


@contextlib.contextmanager
def registry(*names: str, host: str = ADDRESS) -> Iterator[None]:
    """Have one run, with the images of these names, which the node has. PRIVATE asks for a password.

    Raises SetupError.
    """
    REGISTRY.build(print)
    with tempfile.TemporaryDirectory(prefix="mpi-agents-registry-") as made:
        folder = Path(made)
        storage = {"filesystem": {"rootdirectory": f"{folder}/data"}}
        settings: dict[str, Any] = {"version": "0.1", "storage": storage, "http": {"addr": host}}
        if host == PRIVATE:
            settings["auth"] = {"htpasswd": {"realm": "tests", "path": f"{folder}/htpasswd"}}
            (folder / "htpasswd").write_text(f"{USER}:{_HASH}\n")
        (folder / "registry.yml").write_text(json.dumps(settings))
        serve = [os.fspath(REGISTRY.binary), "serve", os.fspath(folder / "registry.yml")]
        with (folder / "log").open("wb") as log, subprocess.Popen(serve, stdout=log, stderr=log) as server:
            try:
                for name in names:
                    _push(name, host)
                yield
            finally:
                server.terminate()


def _push(name: str, host: str) -> None:
    there = image(name) if "/" in image(name) else f"docker.io/library/{image(name)}"
    to, login = address(name, host), ("--user", f"{USER}:{PASSWORD}") if host == PRIVATE else ()
    _ctr("tag", "--force", there, to).check_returncode()
    until(lambda: _ctr("push", "--plain-http", *login, to).returncode == 0, f"{name} is in the registry", _PUSH_S)
    _ctr("rm", to)


def _ctr(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(LocalCluster(Places.of()).ctr("images", *words), capture_output=True, check=False)
