"""A pod whose containers are a Docker engine's: one holds the network, which the others join."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import termios
import tty
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from . import container_config, manifest
from .engine import IMAGE, POD_LABEL
from .manifest import ManifestError
from .pipes import STDIN, OutputPipe
from .processes import Process
from .runtime import EngineError, PodRuntime, StartError, WaitingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .engine import Engine
    from .engine_stream import Stream
    from .pipes import Stdio
    from .sandbox import PodSandbox
    from .volumes import Volumes

Object = dict[str, Any]
_T = TypeVar("_T")

_PID = 1  # in its own namespace: a process of ours that is there
_KILLED = 137
_THREADS_MAX = 4096  # a container and each command in it wait in a thread
_LOG_MODE = 0o666  # of a termination log, whoever the container's user is


class ContainerRuntime(PodRuntime):
    """Starts the containers of one pod."""

    _volumes: Volumes

    def __init__(self, pod: PodSandbox, thing: Object, volumes: Volumes, engine: Engine) -> None:
        super().__init__(pod, thing, volumes)
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._specs = {one["name"]: one for one in manifest.containers(thing)}
        self._sandbox = ""
        self._ids: dict[str, str] = {}  # of each container's last start
        self._starts = 0
        self._is_over = False

    async def prepare(self) -> None:
        """Fill the volumes, and start what holds the network."""
        self._volumes.fill(self._issued)
        if not self._sandbox:
            try:
                self._pod.set_address(await in_thread(self._start_sandbox))
            except (EngineError, ValueError) as error:
                raise ManifestError(f"failed to create pod sandbox: {error}") from None
        self._is_prepared = True

    def _start_sandbox(self) -> str:
        """Return the pod's address."""
        memory, network = self._volumes.shared_memory(), self._engine.network
        config = container_config.sandbox(self._thing, image=IMAGE, network=network, shared_memory=memory)
        self._sandbox = self._create(config, "pause")
        self._engine.start(self._sandbox)
        return self._engine.address(self._sandbox)

    def _create(self, config: Object, container: str) -> str:
        """Create a container of the pod; its name has the number of the start. Raises EngineError."""
        self._starts += 1
        pod = self._pod.pod
        name = f"{pod.namespace}_{pod.name}_{container}_{self._engine.run}_{self._starts}"
        identity = self._engine.create(config, name, {POD_LABEL: self._pod.uid})
        if self._is_over:  # while it was made
            self._engine.remove(identity)
            raise EngineError("the pod has ended")
        return identity

    def has_program(self, container: str) -> bool:  # noqa: ARG002
        """Whether it runs anything: its image's program at least."""
        return True

    async def run(self, container: str, report: Callable[[str], None]) -> Process:
        """Start a container, once its image is there."""
        spec = self._specs[container]
        await self._ensure_image(spec, report)
        if self._is_over:
            raise StartError("the pod has ended")
        try:
            config = self._config(spec)
        except (ManifestError, ValueError, OSError) as error:
            raise WaitingError("CreateContainerConfigError", str(error)) from None
        try:
            identity = await in_thread(self._create, config, container)
        except EngineError as error:
            raise WaitingError("CreateContainerError", str(error)) from None
        self._ids[container] = identity
        log = self._open_log(container)
        try:
            output = await in_thread(self._engine.attach, identity)
            await in_thread(self._engine.start, identity)
        except EngineError as error:
            os.close(log)
            await _ignoring_errors(self._engine.remove, identity)
            raise StartError(f"failed to start container: {error}") from None
        process = Process()
        process.started(_PID)
        self._pod.node.background(self._until_end(process, identity, output, log))
        return process

    async def _ensure_image(self, spec: Object, report: Callable[[str], None]) -> None:
        image = spec["image"]
        try:
            if await in_thread(self._engine.has_image, image):
                return
            if spec.get("imagePullPolicy") == "Never":
                told = f'Container image "{image}" is not present with pull policy of Never'
                raise WaitingError("ErrImageNeverPull", told)
            await in_thread(self._engine.pull, image, lambda text: self._loop.call_soon_threadsafe(report, text))
        except EngineError as error:
            raise WaitingError("ErrImagePull", str(error)) from None

    def _config(self, spec: Object) -> Object:
        """Raises ManifestError, ValueError, OSError."""
        pod = self._pod.object()
        log = self._termination_log(spec["name"])
        with open(log, "ab"):  # is there before the container is
            os.chmod(log, _LOG_MODE)
        return container_config.container(
            pod,
            spec,
            environ=manifest.variables(pod, spec, self._pod.node.services, self._volumes.value),
            mounts=self._volumes.mounts(spec),
            sandbox=self._sandbox,
            hosts=self._pod.node.hosts.path,
            termination_log=log,
            cpus=os.cpu_count() or 1,
        )

    async def _until_end(self, process: Process, identity: str, output: Stream, log: int) -> None:
        try:
            await in_thread(output.copy_output, log, log)
            code, process.reason = await in_thread(self._engine.wait, identity)
        except EngineError:  # it has been removed
            code = _KILLED
        os.close(log)
        process.ended(code)
        await _ignoring_errors(self._engine.remove, identity)

    async def exec(self, container: str, argv: Sequence[str], stdio: Stdio) -> Process:
        """Start a command, whose terminal, if it is to have one, is the engine's: ours only passes bytes."""
        has_stdin = stdio.stdin is not None
        if stdio.tty:
            tty.setraw(stdio.theirs[0], termios.TCSANOW)  # without dropping what has come
        try:
            command, stream = await in_thread(
                self._engine.exec, self._ids[container], argv, stdin=has_stdin, tty=bool(stdio.tty)
            )
        except EngineError as error:
            raise OSError(errno.ESRCH, str(error)) from None
        fds = [os.dup(fd) for fd in stdio.theirs[1:]]
        copying = None
        if has_stdin:
            stdin = os.open(stdio.tty, os.O_RDWR | os.O_NOCTTY) if stdio.tty else os.dup(stdio.theirs[0])
            copying = self._pod.node.background(_copy_input(stream, stdin))
        if stdio.tty:
            stdio.resized = lambda lines, columns: self._resize(command, lines, columns)
            columns, lines = os.get_terminal_size(fds[0])  # as the client has told meanwhile
            stdio.resized(lines, columns)
        process = Process()
        process.started(_PID)
        self._pod.node.background(self._until_exec_end(process, command, stream, fds, copying))
        return process

    async def _until_exec_end(
        self, process: Process, command: str, stream: Stream, fds: list[int], copying: asyncio.Task[None] | None
    ) -> None:
        try:
            await in_thread(stream.copy_output, *fds)
            code = await in_thread(self._engine.exec_code, command)
        except EngineError:  # the container has been removed
            code = _KILLED
        if copying is not None:
            copying.cancel()
        for fd in fds:
            os.close(fd)
        process.ended(code)

    def _resize(self, command: str, lines: int, columns: int) -> None:
        self._pod.node.background(_ignoring_errors(self._engine.resize, command, lines, columns))

    async def command(self, container: str, argv: Sequence[str]) -> bool:
        """Run a command without a stdin and with its output dropped."""
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            command, stream = await in_thread(self._engine.exec, self._ids[container], argv, stdin=False, tty=False)
            await in_thread(stream.copy_output, null, null)
            return await in_thread(self._engine.exec_code, command) == 0
        except EngineError:
            return False
        finally:
            os.close(null)

    def terminate(self, container: str) -> None:
        """TERM."""
        if container in self._ids:
            self._pod.node.background(_ignoring_errors(self._engine.kill, self._ids[container], "SIGTERM"))

    async def end(self) -> None:
        """Remove all containers of the pod."""
        self._is_over = True
        await _ignoring_errors(self._engine.remove_pod, self._pod.uid)


_THREADS = ThreadPoolExecutor(_THREADS_MAX)


async def in_thread(call: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
    """What a call of the engine returns or raises. Many may wait at a time, so it is not the loop's own pool."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(call, *arguments, **named))


async def _copy_input(stream: Stream, stdin: int) -> None:
    """Copy a descriptor, which is ours from now on, to a command's stdin: to its end, or until cancelled."""
    pipe = OutputPipe(stdin, STDIN)
    try:
        while data := await pipe.read():
            await in_thread(stream.write, data)
        await in_thread(stream.end_input)
    finally:
        pipe.close()


async def _ignoring_errors(call: Callable[..., None], *arguments: Any) -> None:
    """Call the engine for what may be over already."""
    with contextlib.suppress(EngineError):
        await in_thread(call, *arguments)
