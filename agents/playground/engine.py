"""The Docker engine that runs the containers of pods. All calls block; each may be made in a thread of its own.

All that a run makes has its label, and is removed by it. The engine has to be one of this machine: its containers see
our folders, and reach our API server at the network's gateway.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import docker
import docker.errors
import docker.utils
import requests

from agents.common.text import printable
from rshagent import __version__

from .engine_stream import Stream
from .runtime import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Object = dict[str, Any]

IMAGE = f"mpi-agents:{__version__}"  # the operator's default
LABEL, POD_LABEL = "mpi-agents.run", "mpi-agents.pod"  # a run's name, a pod's uid
_LOCAL = "unix://"
_TIMEOUT_S = 600.0  # without a byte from the engine
_REPORT_S, _AGAIN_S = 2.0, 0.1
_ERRORS = (docker.errors.DockerException, requests.RequestException)
_MIB = 1 << 20
_PYTHON = "/usr/local/lib/mpi-agents/python/bin/python3"  # in our image
_EMPTY = "import shutil; shutil.rmtree('/folder', ignore_errors=True)"


class Engine:
    """One run's connection to the engine of DOCKER_HOST. `network`: the run's, once it is made."""

    def __init__(self, run: str, network: str = "") -> None:
        """Raises EngineError if no engine answers."""
        self.run = run
        self.network = network
        self._labels = {LABEL: run}
        self._pulling = threading.Lock()
        where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        if not where.startswith(_LOCAL):
            raise EngineError(f"pods can only be containers of a Docker engine on this machine, not of {where}")
        self._socket = where.removeprefix(_LOCAL)
        try:
            self._api = docker.DockerClient(where, timeout=_TIMEOUT_S).api
            self._api.ping()
        except _ERRORS as error:
            why = "permission denied" if "Permission denied" in str(error) else "none answers"
            raise EngineError(f"no Docker engine at {where} ({why}): start it, or set DOCKER_HOST") from None

    # The run ---------------------------------------------------------------------------------------------------------

    def make_network(self) -> str:
        """Make the run's network; return the gateway's address, which is this machine's. Raises EngineError."""
        if not self.has_image(IMAGE):
            raise EngineError(
                f"the engine has no image {IMAGE}: build it with `python -m images.build` (docs/images.md)"
            )
        self.network = f"mpi-{self.run}"
        self._do(self._api.create_network, self.network, driver="bridge", labels=self._labels)
        found = self._do(self._api.inspect_network, self.network)
        gateway = str(found["IPAM"]["Config"][0]["Gateway"])
        try:
            with socket.socket() as probe:
                probe.bind((gateway, 0))
        except OSError:
            raise EngineError(
                f"the engine's gateway {gateway} is no address of this machine: Docker Desktop and rootless engines "
                "can't run pods here"
            ) from None
        return gateway

    def remove_all(self) -> None:
        """Remove all containers and networks of the run. Raises EngineError."""
        filters = {"label": f"{LABEL}={self.run}"}
        while self._remove(filters):  # others may be removing them too
            time.sleep(_AGAIN_S)
        for one in self._do(self._api.networks, filters=filters):
            self._gone(self._api.remove_network, one["Id"])

    def empty(self, folder: str) -> None:
        """Remove what containers have left in a folder, which may be other users'. Raises EngineError."""
        host = {"Binds": [f"{folder}:/folder"], "NetworkMode": "none"}
        command = [_PYTHON, "-c", _EMPTY]
        container = self.create({"Image": IMAGE, "User": "0", "Entrypoint": command, "HostConfig": host}, "", {})
        self.start(container)
        self.wait(container)
        self.remove(container)

    def _remove(self, filters: Mapping[str, str]) -> int:
        """Remove containers; return how many there were."""
        found = self._do(self._api.containers, all=True, quiet=True, filters=filters)
        for one in found:
            self.remove(one["Id"])
        return len(found)

    # Images ----------------------------------------------------------------------------------------------------------

    def has_image(self, image: str) -> bool:
        """Whether the engine has an image. Raises EngineError."""
        try:
            self._api.inspect_image(image)
        except docker.errors.NotFound:
            return False
        except _ERRORS as error:
            raise EngineError(_said(error)) from None
        return True

    def pull(self, image: str, report: Callable[[str], None]) -> None:
        """Pull an image that is not there, once for all pods that wait for it. Raises EngineError."""
        with self._pulling:
            if self.has_image(image):
                return
            report(f"pulling {image}")
            repository, tag = docker.utils.parse_repository_tag(image)
            layers: dict[str, int] = {}
            due = time.monotonic() + _REPORT_S
            try:
                for event in self._api.pull(repository, tag or "latest", stream=True, decode=True):
                    if "error" in event:
                        raise EngineError(f'failed to pull image "{image}": {printable(event["error"])}')
                    if "current" in event.get("progressDetail", {}):
                        layers[event["id"]] = event["progressDetail"]["current"]
                    if time.monotonic() > due:
                        due = time.monotonic() + _REPORT_S
                        report(f"pulling {image}: {sum(layers.values()) / _MIB:.0f} MiB")
            except _ERRORS as error:
                raise EngineError(f'failed to pull image "{image}": {_said(error)}') from None

    # Containers ------------------------------------------------------------------------------------------------------

    def create(self, config: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> str:
        """Create a container of the engine's own configuration; return its id. Raises EngineError."""
        body = {**config, "Labels": {**self._labels, **labels}}
        return str(self._do(self._api.create_container_from_config, body, name or None)["Id"])

    def start(self, container: str) -> None:
        """Start it. Raises EngineError."""
        self._do(self._api.start, container)

    def address(self, container: str) -> str:
        """Its address in the run's network. Raises EngineError."""
        found = self._do(self._api.inspect_container, container)
        return str(found["NetworkSettings"]["Networks"][self.network]["IPAddress"])

    def wait(self, container: str) -> tuple[int, str]:
        """Wait for its end; its exit code, and OOMKilled where that is why. Raises EngineError."""
        self._do(self._api.wait, container, timeout=None)
        state = self._do(self._api.inspect_container, container)["State"]
        return int(state["ExitCode"]), "OOMKilled" if state.get("OOMKilled") else ""

    def kill(self, container: str, signal: str) -> None:
        """Signal its first process. Raises EngineError if it does not run."""
        self._do(self._api.kill, container, signal)

    def remove(self, container: str) -> None:
        """Kill and remove it, if it is there. Raises EngineError."""
        self._gone(self._api.remove_container, container, force=True, v=True)

    def remove_pod(self, uid: str) -> None:
        """Remove all containers of a pod. Raises EngineError."""
        while self._remove({"label": f"{POD_LABEL}={uid}"}):
            time.sleep(_AGAIN_S)

    # Streams ---------------------------------------------------------------------------------------------------------

    def attach(self, container: str) -> Stream:
        """The output of a container that is about to be started. Raises EngineError."""
        return self._stream(f"/containers/{container}/attach?stream=1&stdout=1&stderr=1", {})

    def exec(self, container: str, argv: list[str], *, stdin: bool, tty: bool) -> tuple[str, Stream]:
        """Start a command; return its id and its streams. Raises EngineError."""
        made = self._do(self._api.exec_create, container, argv, stdin=stdin, tty=tty)["Id"]
        return str(made), self._stream(f"/exec/{made}/start", {"Detach": False, "Tty": tty}, is_raw=tty)

    def exec_code(self, command: str) -> int:
        """How a command ends, whose output has. Raises EngineError."""
        while (found := self._do(self._api.exec_inspect, command))["Running"]:
            time.sleep(_AGAIN_S)
        return int(found["ExitCode"])

    def resize(self, command: str, lines: int, columns: int) -> None:
        """Set the size of a command's terminal. Raises EngineError."""
        self._do(self._api.exec_resize, command, height=lines, width=columns)

    def _stream(self, path: str, body: Object, *, is_raw: bool = False) -> Stream:
        try:
            return Stream.open(self._socket, f"/v{self._api.api_version}{path}", body, is_raw=is_raw)
        except OSError as error:
            raise EngineError(f"no stream of the engine: {printable(str(error))}") from None

    @staticmethod
    def _do(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except _ERRORS as error:
            raise EngineError(_said(error)) from None

    @staticmethod
    def _gone(remove: Callable[..., None], *arguments: Any, **named: Any) -> None:
        """Remove what may be gone, or about to be."""
        try:
            remove(*arguments, **named)
        except docker.errors.NotFound:
            pass
        except _ERRORS as error:
            if "already in progress" not in str(error):
                raise EngineError(_said(error)) from None


def _said(error: Exception) -> str:
    """What the engine said, as one line."""
    return printable(str(error.explanation if isinstance(error, docker.errors.APIError) else error))
