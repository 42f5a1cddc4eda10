"""What carries out one pod's containers: processes of this machine, or containers of a Docker engine."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from . import logs
from .manifest import ManifestError
from .volumes import MissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .pipes import Stdio
    from .processes import Process
    from .sandbox import PodSandbox
    from .volumes import Volumes

Object = dict[str, Any]

_MESSAGE_MAX = 4096  # bytes of a termination message
_LINES_MAX, _LINES_SIZE_MAX = 80, 2048  # of a log in its place (kubernetes, pkg/kubelet/container/runtime.go)


class EngineError(Exception):
    """The Docker engine is not there, or refused: one line for people."""


class StartError(Exception):
    """A container's program can't be started: the runtime's message."""


class WaitingError(Exception):
    """A container can't be started yet: the reason and the message of its state. It is tried again."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


class PodRuntime(ABC):
    """One pod's. Containers are given by their names."""

    def __init__(self, pod: PodSandbox, thing: Object, volumes: Volumes | None) -> None:
        """Without `volumes`, the pod has neither these nor anything of the cluster's (`Cluster.create_pod`)."""
        self._pod = pod
        self._thing = thing
        self._volumes = volumes
        self._token = ""
        self._is_prepared = False

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the containers share. Raises MissingError, to be called again, and ManifestError."""

    def refill(self, config_map: Object) -> None:
        """Show a config map that has changed. Containers see it immediately."""
        if self._is_prepared and self._volumes is not None and self._volumes.shows(config_map):
            with contextlib.suppress(MissingError, ManifestError):
                self._volumes.fill(self._issued)

    @abstractmethod
    def has_program(self, container: str) -> bool:
        """Whether a container runs anything; one that does not is as if it slept without end."""

    @abstractmethod
    async def run(self, container: str, report: Callable[[str], None]) -> Process:
        """Start a container; its output goes to its log. `report` gets what a long start does.

        Raises StartError, WaitingError.
        """

    @abstractmethod
    async def exec(self, container: str, argv: Sequence[str], stdio: Stdio) -> Process:
        """Start a command in a running container. Raises OSError."""

    @abstractmethod
    async def command(self, container: str, argv: Sequence[str]) -> bool:
        """Run a probe's or a hook's command; returns whether it ended with 0."""

    @abstractmethod
    def terminate(self, container: str) -> None:
        """Send TERM to a container's program, if it runs."""

    @abstractmethod
    async def end(self) -> None:
        """Kill all that runs, and wait until it is gone."""

    def termination_message(self, container: Object, *, failed: bool) -> str:
        """What a container has left in its termination log, or if it asks for that and failed, the end of its log."""
        name = container["name"]
        said = logs.read(self._termination_log(name), size=_MESSAGE_MAX)
        if not said and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            said = logs.tail(logs.read(self._log(name)), _LINES_MAX)[-_LINES_SIZE_MAX:]
        return said.decode(errors="replace")

    def _open_log(self, container: str) -> int:
        return os.open(self._log(container), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def _log(self, container: str) -> str:
        return os.path.join(self._pod.folder, f"{container}.log")

    def _termination_log(self, container: str) -> str:
        return os.path.join(self._pod.folder, f"{container}.termination-log")

    def _issued(self) -> str:
        """The token of the pod's ServiceAccount."""
        if not self._token:
            account = self._thing["spec"].get("serviceAccountName") or "default"
            self._token = self._pod.node.issue_token(self._pod.pod.namespace, account)
        return self._token
