"""What a pod's processes are started with: filled volumes, environments, commands, where their output goes."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from . import logs, manifest
from .manifest import ManifestError
from .resources import JOBS
from .volumes import MissingError, Volumes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .kubelet import Kubelet, LivePod
    from .processes import Process

Object = dict[str, Any]

_MESSAGE_MAX = 4096  # bytes of a termination message
_LINES_MAX, _LINES_SIZE_MAX = 80, 2048  # of a log in its place (kubernetes, pkg/kubelet/container/runtime.go)


class Starter:
    """Starts the processes of one pod."""

    def __init__(self, kubelet: Kubelet, live: LivePod, thing: Object, volumes: Volumes | None) -> None:
        """Without `volumes`, the pod has neither these nor anything of the cluster's (`Cluster.create_pod`)."""
        self._kubelet = kubelet
        self._live = live
        self._thing = thing
        self._volumes = volumes
        self._calls: dict[str, manifest.Call] = {}
        self._token = ""

    def prepare(self, *, mounted: bool) -> None:
        """Fill the volumes and find out all calls. Raises MissingError, ManifestError."""
        rewritten: Mapping[str, str] = {}
        if self._volumes is not None:
            rewritten = self._volumes.rewritten(mounted=mounted)
            self._volumes.fill(self._issued)
            self._live.image = self._image()
        for container in manifest.containers(self._thing):
            self._calls[container["name"]] = self._call(container, rewritten)

    def _call(self, container: Object, rewritten: Mapping[str, str]) -> manifest.Call:
        given = self._kubelet.base_environ(self._live)
        if self._volumes is None:
            return manifest.call(self._thing, container, given, lambda *_: None, {})
        given |= self._kubelet.services
        given["MPI_AGENT_TERMINATION_LOG"] = self._termination_log(container["name"])
        with open(given["MPI_AGENT_TERMINATION_LOG"], "ab"):  # is there before the container is
            pass
        if token := manifest.token_volume(self._thing, container):
            given["MPI_AGENT_SERVICE_ACCOUNT"] = self._volumes.folder(token)
        thing = self._kubelet.object(self._live)
        return manifest.call(thing, container, given, self._volumes.value, rewritten)

    def _image(self) -> Mapping[str, str] | None:
        """The environment for the MPI of the pod's job. Raises MissingError while that is not installed."""
        from .documents import job_of  # noqa: PLC0415 - most clusters have no images

        meta = self._thing["metadata"]
        uid = (meta.get("labels") or {}).get("mpi-agents/job-uid")
        for kind in JOBS if uid and self._kubelet.images else ():
            for one in self._kubelet.store.all(kind.key, meta["namespace"]):
                if one["metadata"]["uid"] == uid and not isinstance(job := job_of(one), tuple):
                    marker, environ = self._kubelet.images[job.implementation]
                    if not os.path.exists(marker):
                        raise MissingError(marker)
                    return environ
        return None

    def refill(self, config_map: Object) -> None:
        """A config map has changed: show it anew."""
        if self._calls and self._volumes is not None and self._volumes.shows(config_map):
            with contextlib.suppress(MissingError, ManifestError):
                self._volumes.fill(self._issued)

    def environ(self, container: str) -> dict[bytes, bytes]:
        """A container's environment; without anything of its manifest's as long as that is not known."""
        if self._volumes is None and not self._calls:
            self.prepare(mounted=True)
        call = self._calls.get(container)
        environ = self._kubelet.base_environ(self._live) if call is None else call.environ
        return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}

    def program(self, container: str) -> str:
        """What a container runs; "" if it has no command."""
        return next(iter(self._calls[container].argv), "")

    async def run(self, container: str) -> Process:
        """Start a container's own process; its output goes to its log. Raises OSError."""
        log = os.open(self._log(container), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        return await self._exec(container, self._calls[container].argv, log)

    async def command(self, container: str, argv: Sequence[str]) -> bool:
        """Run a probe's or a hook's command; returns whether it ended with 0."""
        try:
            process = await self._exec(container, argv, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return await process.wait() == 0

    def termination_message(self, container: Object, *, failed: bool) -> str:
        """What a container has left in its termination log, or if it asks for that and failed, the end of its log."""
        name = container["name"]
        said = logs.read(self._termination_log(name), size=_MESSAGE_MAX)
        if not said and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            said = logs.tail(logs.read(self._log(name)), _LINES_MAX)[-_LINES_SIZE_MAX:]
        return said.decode(errors="replace")

    async def _exec(self, container: str, argv: Sequence[str], output: int) -> Process:
        call = self._calls[container]
        folder = call.folder or self._kubelet.home(self._live)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        words = [os.fsencode(word) for word in argv]
        try:
            return await self._kubelet.processes(self._live).exec(
                words, self.environ(container), folder, [null, output, output]
            )
        finally:
            os.close(null)
            os.close(output)

    def _issued(self) -> str:
        if not self._token:
            account = self._thing["spec"].get("serviceAccountName") or "default"
            self._token = self._kubelet.issue_token(self._live.pod.namespace, account)
        return self._token

    def _log(self, container: str) -> str:
        return os.path.join(self._live.folder, f"{container}.log")

    def _termination_log(self, container: str) -> str:
        return os.path.join(self._live.folder, f"{container}.termination-log")
