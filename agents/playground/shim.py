"""The zygote, from which a shim is forked for each pod: to its pod what containerd's shim and pause are to a real one.

A shim enters the pod's namespaces, starts processes for the server and reports their ends. It is the first process of a
pid namespace, or where there is none a child subreaper: so whatever a pod's processes leave behind becomes its child,
and ending a pod is to kill the children until there are none. Shim and zygote end, and with them all processes, when
their socket closes: nothing outlives the server.

The server runs this with a light interpreter and without the package's `__init__` (processes.py): a shim takes 1 MiB.
Messages are marshalled tuples over SOCK_SEQPACKET, with file descriptors by SCM_RIGHTS. Process ids are the server's.
  server → zygote  ("pod", settings)                              with the pod's socket
  zygote → server  ("level", level)                               what pods have of their own here: namespaces.py
  server → shim     ("exec", id, argv, environ, folder, tty)       with stdin, stdout, stderr
                    ("end",)
  shim → server     ("entered", pid, mounted: bool), ("started", id, pid), ("failed", id, errno), ("exited", id, code),
                    ("ended",)
"""

from __future__ import annotations

import array
import contextlib
import errno
import gc
import marshal
import os
import select
import signal
import socket

from . import namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ROUNDS = 10_000  # of killing, before a process that can't be killed is left


def zygote(number: int) -> None:
    """Be the zygote on the socket of this number."""
    server = socket.socket(fileno=number)
    os.setsid()
    level = namespaces.possible()
    namespaces.prepare(level)
    namespaces.adopt_orphans("zygote")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended shims are reaped by the kernel
    gc.disable()
    gc.freeze()  # so that a shim's pages stay shared with ours
    server.send(marshal.dumps(("level", level)))
    while True:
        message, fds = _receive(server)
        if message is None:
            return
        pid = namespaces.fork(level)
        if pid == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            Shim(socket.socket(fileno=fds[0]), message[1], level).run()
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _receive(source: socket.socket) -> tuple[Any, list[int]]:
    try:
        # Not socket.recv_fds, which takes no notice of its flags in Python 3.11.
        data, ancillary, _flags, _address = source.recvmsg(1 << 19, 64, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        data, ancillary = b"", []
    fds = array.array("i")
    for _level, _kind, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return (marshal.loads(data) if data else None), list(fds)  # noqa: S302 - our own parent's bytes


class Shim:
    """One pod's processes. Ends when it is told to or when the server's end of the socket closes."""

    def __init__(self, server: socket.socket, settings: dict[str, Any], level: int) -> None:
        self._server = server
        self._settings = settings
        self._level = level
        # The server's /proc, which tells its process ids when we have one of our own.
        self._proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._running: dict[int, int] = {}  # our process id → the server's number

    def run(self) -> None:
        """Serve until the end."""
        os.setsid()
        namespaces.adopt_orphans(f"pod {self._settings['name'][-11:]}")
        wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        pid = int(os.readlink("self", dir_fd=self._proc))
        self._report("entered", pid, self._enter())
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self._server, select.POLLIN)
        while True:
            ready = [fd for fd, _mask in poll.poll()]
            if wakeup in ready:
                os.read(wakeup, 4096)
                self._reap()
            if self._server.fileno() in ready and not self._serve():
                break
        self._end()
        self._report("ended")

    def _enter(self) -> bool:
        """Whether the pod's mounts are there: without them it works too."""
        namespaces.enter(self._settings["name"], self._level)
        if self._level < namespaces.MOUNTS:
            return False
        try:
            namespaces.show(self._settings["mounts"], self._settings["hosts"], self._settings["stage"])
        except OSError:
            return False
        return True

    def _serve(self) -> bool:
        message, fds = _receive(self._server)
        if message is None or message[0] == "end":
            return False
        self._exec(fds, *message[1:])
        for fd in fds:
            os.close(fd)
        return True

    def _exec(
        self, fds: list[int], number: int, argv: list[bytes], environ: dict[bytes, bytes], folder: str, tty: str
    ) -> None:
        actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)]
        if tty:  # opened by a session leader, it becomes its controlling terminal
            actions = [(os.POSIX_SPAWN_OPEN, 0, tty, os.O_RDWR, 0)]
            actions += [(os.POSIX_SPAWN_DUP2, 0, target) for target in (1, 2)]
        try:
            os.chdir(folder)
            pid = os.posix_spawn(
                _found(argv[0], environ.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")),
                argv,
                environ,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT),
            )
        except OSError as error:
            self._report("failed", number, error.errno or 0)
            return
        self._running[pid] = number
        self._report("started", number, self._outer(pid))

    def _outer(self, pid: int) -> int:
        """What the server calls one of our children: told by a pidfd in the server's /proc."""
        if self._level < namespaces.PROCESSES:
            return pid
        fd = os.pidfd_open(pid)
        info = os.open(f"self/fdinfo/{fd}", os.O_RDONLY, dir_fd=self._proc)
        try:
            return next(int(line[4:]) for line in os.read(info, 4096).split(b"\n") if line.startswith(b"Pid:"))
        finally:
            os.close(info)
            os.close(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self._running.pop(pid, None)
            if number is not None:
                code = os.waitstatus_to_exitcode(status)
                self._report("exited", number, code if code >= 0 else 128 - code)

    def _end(self) -> None:
        """Kill every process of the pod: orphans become our children when their parents die, so until none is left."""
        for _ in range(_ROUNDS):
            children = _children()
            if not children:
                break
            for pid in children:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            select.select((), (), (), 0.001)
        self._reap()

    def _report(self, *message: Any) -> None:
        with contextlib.suppress(OSError):  # the server is gone: the closed socket ends the loop
            self._server.send(marshal.dumps(message))


def _found(name: bytes, path: bytes) -> bytes:
    """Where the executable is, by the container's PATH, as runc looks it up. Raises OSError."""
    if b"/" in name:
        os.stat(name)
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, "")
        if not os.access(name, os.X_OK):
            raise PermissionError(errno.EACCES, "")
        return name
    for folder in path.split(b":"):
        candidate = os.path.join(folder or b".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(errno.ENOENT, "")


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == os.getpid()]


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
