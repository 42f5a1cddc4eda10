"""A pod whose containers are processes of this machine: filled volumes, environments, commands, where output goes."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

from . import manifest
from .resources import JOBS
from .runtime import PodRuntime, StartError
from .statuses import runtime_error
from .volumes import MissingError, Volumes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .pipes import Stdio
    from .processes import Process
    from .sandbox import PodSandbox

Object = dict[str, Any]


class ProcessRuntime(PodRuntime):
    """Starts the processes of one pod."""

    def __init__(self, pod: PodSandbox, thing: Object, volumes: Volumes | None) -> None:
        super().__init__(pod, thing, volumes)
        self._calls: dict[str, manifest.Call] = {}
        self._running: dict[str, Process] = {}

    async def prepare(self) -> None:
        """Enter the namespaces, fill the volumes and find out all calls."""
        await self._pod.processes.enter()
        self._prepare(mounted=self._pod.processes.mounted)

    def _prepare(self, *, mounted: bool) -> None:
        rewritten: Mapping[str, str] = {}
        if self._volumes is not None:
            rewritten = self._volumes.rewritten(mounted=mounted)
            self._volumes.fill(self._issued)
            self._pod.image = self._image()
        for container in manifest.containers(self._thing):
            self._calls[container["name"]] = self._call(container, rewritten)
        self._is_prepared = True

    def _call(self, container: Object, rewritten: Mapping[str, str]) -> manifest.Call:
        given = self._pod.environ()
        if self._volumes is None:
            return manifest.call(self._thing, container, given, lambda *_: None, {})
        given |= self._pod.node.services
        given["MPI_AGENT_TERMINATION_LOG"] = self._termination_log(container["name"])
        with open(given["MPI_AGENT_TERMINATION_LOG"], "ab"):  # is there before the container is
            pass
        if token := manifest.token_volume(self._thing, container):
            given["MPI_AGENT_SERVICE_ACCOUNT"] = self._volumes.folder(token)
        return manifest.call(self._pod.object(), container, given, self._volumes.value, rewritten)

    def _image(self) -> Mapping[str, str] | None:
        """The environment for the MPI of the pod's job. Raises MissingError while that is not installed."""
        from .documents import job_of  # noqa: PLC0415 - most clusters have no images

        meta = self._thing["metadata"]
        uid = (meta.get("labels") or {}).get("mpi-agents/job-uid")
        node = self._pod.node
        for kind in JOBS if uid and node.images else ():
            for one in node.store.all(kind.key, meta["namespace"]):
                if one["metadata"]["uid"] == uid and not isinstance(job := job_of(one), tuple):
                    marker, environ = node.images[job.implementation]
                    if not os.path.exists(marker):
                        raise MissingError(marker)
                    return environ
        return None

    def environ(self, container: str) -> dict[bytes, bytes]:
        """A container's environment; without anything of its manifest's as long as that is not known."""
        if self._volumes is None and not self._calls:
            self._prepare(mounted=True)
        call = self._calls.get(container)
        environ = self._pod.environ() if call is None else call.environ
        return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}

    def has_program(self, container: str) -> bool:
        """Whether it has a command."""
        return bool(self._calls[container].argv)

    async def run(self, container: str, report: Callable[[str], None]) -> Process:  # noqa: ARG002 - none takes long
        """Start a container's own process."""
        argv = self._calls[container].argv
        try:
            process = await self._exec(container, argv, self._open_log(container))
        except OSError as error:
            told = runtime_error(argv[0], error.errno or 0)
            raise StartError(f"failed to create containerd task: {told}") from error
        self._running[container] = process
        mains = self._pod.processes.main_pids
        mains.add(process.pid)
        process.when_ended(lambda: mains.discard(process.pid))
        return process

    async def exec(self, container: str, argv: Sequence[str], stdio: Stdio) -> Process:
        """Start a command in the pod's home."""
        words = [os.fsencode(word) for word in argv]
        environ = self.environ(container)
        return await self._pod.processes.exec(words, environ, self._pod.home, stdio.theirs, stdio.tty)

    async def command(self, container: str, argv: Sequence[str]) -> bool:
        """Run a command without a stdin and with its output dropped."""
        try:
            process = await self._exec(container, argv, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return await process.wait() == 0

    def terminate(self, container: str) -> None:
        """TERM."""
        process = self._running.get(container)
        if process is not None and process.pid and not process.has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)

    async def end(self) -> None:
        """Kill the pod's tree of processes."""
        await self._pod.processes.end()

    async def _exec(self, container: str, argv: Sequence[str], output: int) -> Process:
        call = self._calls[container]
        folder = call.folder or self._pod.home
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        words = [os.fsencode(word) for word in argv]
        try:
            return await self._pod.processes.exec(words, self.environ(container), folder, [null, output, output])
        finally:
            os.close(null)
            os.close(output)
