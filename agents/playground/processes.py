"""The server's side of the pods' processes: the zygote, and one shim for each pod (see shim.py)."""

from __future__ import annotations

import asyncio
import errno
import marshal
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SEND_BUFFER = 1 << 18
_KILLED = 137
_AGAIN_S = 0.01
_PF_EXITING = 0x4  # a flag in /proc/PID/stat (proc_pid_stat(5)): its memory is gone, its parent has not been told yet
# Imports shim.py out of its folder as a package without an `__init__`, whose imports shims don't need.
_START = """
import sys
package = sys.modules["pod"] = type(sys)("pod")
package.__path__ = [sys.argv[1]]
from pod.shim import zygote
zygote(int(sys.argv[2]))
"""


class Process:
    """A process of a pod. `pid` is 0 if the pod has ended before it could start."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.begun: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[int] = loop.create_future()
        self.reason = ""  # of its end, if it is none that its exit code tells

    def started(self, pid: int) -> None:
        """It runs."""
        self.pid = pid
        if not self.begun.done():  # else nobody waits for its start any more
            self.begun.set_result(None)

    def failed(self, error: int) -> None:
        """It could not be started: the errno."""
        if not self.begun.done():
            self.begun.set_exception(OSError(error, os.strerror(error)))

    def ended(self, code: int) -> None:
        """It ended, or its pod did."""
        self._ended.set_result(code)
        if not self.begun.done():
            self.begun.set_result(None)

    @property
    def has_ended(self) -> bool:
        """Whether there is an exit code."""
        return self._ended.done()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call this once it has ended."""
        self._ended.add_done_callback(lambda _ended: call())

    async def wait(self) -> int:
        """Its exit code, 128+n for signal n."""
        return await asyncio.shield(self._ended)


class Zygote:
    """The process that shims are forked from."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", "-c", _START, os.path.dirname(__file__), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
            )
        self._socket = ours
        answer = ours.recv(4096)
        if not answer:
            raise RuntimeError("the stand-in's zygote did not start; its message is above")
        self.level: int = marshal.loads(answer)[1]  # noqa: S302 - our own child's bytes
        """What pods have of their own here (namespaces.py)."""
        self.pid = self._process.pid

    def shim(self, settings: Mapping[str, Any]) -> socket.socket:
        """Start a shim and return our end of its socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._socket, [marshal.dumps(("pod", dict(settings)))], [theirs.fileno()])
        return ours

    def close(self) -> None:
        """End it. Its shims continue until their own sockets close."""
        self._socket.close()
        self._process.wait()


class PodProcesses:
    """The process tree of one pod. Its shim starts with the first process."""

    def __init__(self, zygote: Zygote, settings: Mapping[str, Any]) -> None:
        self.pid = 0
        self.mounted = False
        self.main_pids: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._zygote = zygote
        self._settings = settings
        self._socket: socket.socket | None = None
        self._processes: dict[int, Process] = {}
        self._number = 0
        self._entered = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether the shim runs."""
        return self._socket is not None

    async def exec(
        self, argv: Sequence[bytes], environ: Mapping[bytes, bytes], folder: str, fds: Sequence[int], tty: str = ""
    ) -> Process:
        """Start a process in the pod. The file descriptors stay the caller's. Raises OSError."""
        self._number += 1
        message = marshal.dumps(("exec", self._number, list(argv), dict(environ), folder, tty))
        if len(message) > _SEND_BUFFER:  # as the kernel would say: more than 128 KiB in one argument
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        process = Process()
        if self._over.is_set():
            process.ended(_KILLED)  # as those are told that were there when the pod ended
            return process
        self._processes[self._number] = process
        await self._send(message, fds)
        await process.begun
        return process

    async def enter(self) -> None:
        """Start the shim if it is not there, and wait until it is in its namespaces, or over."""
        if not self._over.is_set():
            self._start()
        await self._entered.wait()

    async def end(self) -> None:
        """Kill the whole tree, and wait until it is gone."""
        if self._socket is None:
            self._gone()
        else:
            await self._send(marshal.dumps(("end",)))
        await self._over.wait()

    def tree(self) -> set[int]:
        """The process ids below the shim, those that have ended left out."""
        return {pid for pid in descendants(self.pid) if not has_ended(pid)} if self.pid else set()

    def _start(self) -> None:
        if self._socket is None:
            self._socket = self._zygote.shim(self._settings)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            self._socket.setblocking(False)
            self._loop.add_reader(self._socket.fileno(), self._read)

    async def _send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        self._start()
        while self._socket is not None:
            try:
                socket.send_fds(self._socket, [message], fds)
                return
            except BlockingIOError:  # the shim has not read for long
                await asyncio.sleep(_AGAIN_S)
            except OSError:
                self._gone()

    def _read(self) -> None:
        for _ in range(64):
            try:
                data = self._socket.recv(65536) if self._socket is not None else b""
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._gone()
                return
            self._handle(marshal.loads(data))  # noqa: S302 - our own child's bytes

    def _handle(self, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == "entered":
            _, self.pid, self.mounted = message
            self._entered.set()
        elif kind == "started":
            self._processes[message[1]].started(message[2])
        elif kind == "failed":
            self._processes.pop(message[1]).failed(message[2])
        elif kind == "exited":
            self._processes.pop(message[1]).ended(message[2])

    def _gone(self) -> None:
        """The shim has ended: whoever still waits for a process learns that it was killed."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        self._socket = None
        self.pid = 0
        self._over.set()
        self._entered.set()
        for process in self._processes.values():
            process.ended(_KILLED)
        self._processes.clear()


def descendants(pid: int) -> set[int]:
    """The process ids below a process."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass  # it has just ended
    return found


def has_ended(pid: int) -> bool:
    """Whether a process is a zombie, about to be one, or no more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] in {"Z", "X"} or bool(int(fields[6]) & _PF_EXITING)


def command_line(pid: int) -> list[str]:
    """A process's argv; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []
