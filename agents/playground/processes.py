"""The server's side of the pods' processes: the nursery, and one shim for each pod (see shim.py)."""

from __future__ import annotations

import array
import errno
import marshal
import os
import socket
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from .loop import READ, WRITE, Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MARK = "PLAYGROUND_POD"  # the environment variable that every process of a pod carries
_SEND_BUFFER = 1 << 18
_PF_EXITING = 0x4  # a flag in /proc/PID/stat (proc_pid_stat(5)): its memory is gone, its parent has not been told yet
# Imports shim.py out of its folder as a package without an `__init__`, whose imports shims don't need.
_START = """
import sys
package = sys.modules["pod"] = type(sys)("pod")
package.__path__ = [sys.argv[1]]
from pod.shim import nursery
nursery(int(sys.argv[2]))
"""


class Listener(Protocol):
    """Who is told what becomes of a process."""

    def started(self, pid: int) -> None:
        """It runs."""

    def failed(self, error: int) -> None:
        """It could not be started: the errno."""

    def exited(self, code: int) -> None:
        """It ended: its exit code, 128+n for signal n."""


class Nursery:
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
            raise RuntimeError("the stand-in's nursery did not start; its message is above")
        self.level: int = marshal.loads(answer)[1]  # noqa: S302 - our own child's bytes
        """What pods have of their own here (namespaces.py)."""
        self.pid = self._process.pid

    def shim(self, settings: Mapping[str, Any]) -> socket.socket:
        """Start a shim and return our end of its socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._socket.sendmsg([marshal.dumps(("pod", dict(settings)))], _rights([theirs.fileno()]))
        return ours

    def close(self) -> None:
        """End it. Its shims go on until their own sockets close."""
        self._socket.close()
        self._process.wait()


def _rights(fds: Sequence[int]) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]


class PodProcesses:
    """The process tree of one pod. Its shim starts with the first process."""

    def __init__(self, loop: Loop, nursery: Nursery, settings: Mapping[str, Any]) -> None:
        self.pid = 0
        self.mounted = False
        self.main_pids: set[int] = set()
        self._loop = loop
        self._nursery = nursery
        self._settings = settings
        self._socket: socket.socket | None = None
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        self._listeners: dict[int, Listener] = {}
        self._number = 0
        self._on_entered: list[Callable[[], None]] = []
        self._on_ended: list[Callable[[], None]] = []
        self._over = False

    def exec(
        self,
        argv: Sequence[bytes],
        environ: Mapping[bytes, bytes],
        folder: str,
        fds: Sequence[int],
        listener: Listener,
        tty: str = "",
    ) -> None:
        """Start a process in the pod. The file descriptors stay the caller's."""
        self._number += 1
        message = marshal.dumps(("exec", self._number, list(argv), dict(environ), folder, tty))
        if len(message) > _SEND_BUFFER:  # as the kernel would say: more than 128 KiB in one argument
            listener.failed(errno.E2BIG)
            return
        self._listeners[self._number] = listener
        self._send(message, [os.dup(fd) for fd in fds])

    def enter(self, then: Callable[[], None]) -> None:
        """Start the shim if it is not there, and call when it is in its namespaces."""
        if self.pid or self._over:
            then()
            return
        self._on_entered.append(then)
        self._start()

    def end(self, then: Callable[[], None]) -> None:
        """Kill the whole tree, and call when it is gone."""
        if self._socket is None:
            self._over = True
            then()
            return
        self._on_ended.append(then)
        self._send(marshal.dumps(("end",)), [])

    def tree(self) -> set[int]:
        """The process ids below the shim, those that have ended left out."""
        found: set[int] = set()
        waiting = [self.pid] if self.pid else []
        while waiting:
            for child in _children(waiting.pop()):
                if child not in found:
                    found.add(child)
                    waiting.append(child)
        return {pid for pid in found if not has_ended(pid)}

    def _start(self) -> None:
        if self._socket is None:
            self._socket = self._nursery.shim(self._settings)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            self._socket.setblocking(False)
            self._loop.add(self._socket.fileno(), READ, self._ready)

    def _send(self, message: bytes, fds: list[int]) -> None:
        if self._over:
            _close_all(fds)
            return
        self._start()
        self._queue.append((message, fds))
        self._flush()

    def _flush(self) -> None:
        assert self._socket is not None
        while self._queue:
            message, fds = self._queue[0]
            try:
                self._socket.sendmsg([message], _rights(fds) if fds else [])
            except BlockingIOError:
                self._loop.modify(self._socket.fileno(), READ | WRITE)
                return
            except OSError:
                self._gone()
                return
            self._queue.popleft()
            _close_all(fds)
        self._loop.modify(self._socket.fileno(), READ)

    def _ready(self, mask: int) -> None:
        assert self._socket is not None
        if mask & WRITE:
            self._flush()
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
            waiting, self._on_entered = self._on_entered, []
            for call in waiting:
                call()
        elif kind == "started":
            self._listeners[message[1]].started(message[2])
        elif kind == "failed":
            self._listeners.pop(message[1]).failed(message[2])
        elif kind == "exited":
            self._listeners.pop(message[1]).exited(message[2])

    def _gone(self) -> None:
        """The shim has ended: whoever still waits for a process learns that it was killed."""
        if self._socket is None:
            return
        self._loop.remove(self._socket.fileno())
        self._socket.close()
        self._socket = None
        self._over = True
        self.pid = 0
        for _message, fds in self._queue:
            _close_all(fds)
        self._queue.clear()
        for listener in tuple(self._listeners.values()):
            listener.exited(137)
        self._listeners.clear()
        for call in (*self._on_entered, *self._on_ended):
            call()


def _close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


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


def marked(value: str) -> set[int]:
    """The live processes whose environment carries a pod's mark (those that may be read)."""
    wanted = f"{MARK}={value}".encode()
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.add(int(name))
        except OSError:
            continue  # another user's, or gone
    return {pid for pid in found if not has_ended(pid)}


def command_line(pid: int) -> list[str]:
    """A process's argv; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []
