"""The first process of a pod: it stands where containerd's shim and the pause container stand.

Run by the server as a script with a light interpreter (`python -I -S -E shim.py FD`) it is first the *nursery*: it
tries once which namespaces it may make, then forks one *shim* for each pod that is asked for. A shim enters the pod's
namespaces, starts processes for the server and reports their ends. It is a child subreaper, so whatever a pod's
processes leave behind becomes its child, and ending a pod is: kill the children until there are none. Shim and nursery
end, and with them all processes, when their socket closes: nothing outlives the server.

Messages are marshalled tuples over SOCK_SEQPACKET, file descriptors come by SCM_RIGHTS.
  server → nursery  ("pod", settings)                              with the pod's socket
  nursery → server  ("namespaces", hostname: bool, mounts: bool)   what pods can have here
  server → shim     ("exec", id, argv, environ, folder, tty)       with stdin, stdout, stderr
                    ("signal", pid, number), ("end",)
  shim → server     ("entered", pid, hostname: bool, mounted: bool), ("started", id, pid), ("failed", id, errno),
                    ("exited", id, code), ("ended",)
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import marshal
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_RDONLY, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 4096, 16384, 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Be the nursery on the socket whose number is given."""
    server = socket.socket(fileno=int(sys.argv[1]))
    os.setsid()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_NAME, b"nursery", 0, 0, 0)
    hostname, mounts = _tried(mounts=False), _tried(mounts=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended shims are reaped by the kernel
    server.send(marshal.dumps(("namespaces", hostname, mounts)))
    while True:
        message, fds = _receive(server)
        if message is None:
            return
        pid = os.fork()
        if pid == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            Shim(socket.socket(fileno=fds[0]), message[1], hostname=hostname, mounts=mounts).run()
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _receive(source: socket.socket) -> tuple[Any, list[int]]:
    try:
        data, ancillary, _flags, _address = source.recvmsg(1 << 19, 64, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        data, ancillary = b"", []
    fds = array.array("i")
    for _level, _kind, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return (marshal.loads(data) if data else None), list(fds)  # noqa: S302 - our own parent's bytes


# Namespaces -----------------------------------------------------------------------------------------------------------


def _tried(*, mounts: bool) -> bool:
    """Whether a pod can have a host name (and mounts) of its own: tried in a child, as a failure can't be undone."""
    pid = os.fork()
    if pid == 0:
        try:
            _unshare(mounts=mounts)
            socket.sethostname("probe")
            if mounts:
                _mount("tmpfs", "/tmp", "tmpfs", 0, "size=4k")  # noqa: S108
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _unshare(*, mounts: bool) -> None:
    """Enter new namespaces: as root plainly, else inside a user namespace that maps the user to itself."""
    flags = _CLONE_NEWUTS | (_CLONE_NEWNS if mounts else 0)
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0 or _libc.unshare(flags) != 0:
        _check(_libc.unshare(flags | _CLONE_NEWUSER))
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    if mounts:
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]))


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _mount_folders(mounts: dict[str, str], hosts: str, stage: str) -> None:
    """Show each folder (or file) at its path. A path that isn't there yet is made by an overlay on its parent.

    `stage` is a folder for the overlays' own layers. Overlays in user namespaces need Linux 5.11.
    """
    parents: dict[str, list[str]] = {}
    for target in mounts:
        if not os.path.lexists(target):
            parents.setdefault(os.path.dirname(target), []).append(os.path.basename(target))
    for parent, names in parents.items():
        if not os.path.isdir(parent):
            raise OSError(f"{parent} is not a folder here")
        layer = os.path.join(stage, parent.strip("/").replace("/", "-"))
        for name in names:
            os.makedirs(os.path.join(layer, name), exist_ok=True)
        _mount("overlay", parent, "overlay", 0, f"lowerdir={layer}:{parent}")
    for target, source in mounts.items():
        _mount(source, target, None, _MS_BIND | _MS_REC, None)
    if hosts and os.path.exists("/etc/hosts"):
        _mount(hosts, "/etc/hosts", None, _MS_BIND, None)


# A pod ----------------------------------------------------------------------------------------------------------------


class Shim:
    """One pod's processes. Ends when it is told to or when the server's end of the socket closes."""

    def __init__(self, server: socket.socket, settings: dict[str, Any], *, hostname: bool, mounts: bool) -> None:
        self.server = server
        self.settings = settings
        self.hostname = hostname
        self.mounts = mounts
        self.running: dict[int, int] = {}  # process id → the server's id

    def run(self) -> None:
        """Serve until the end."""
        os.setsid()
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _libc.prctl(_PR_SET_NAME, b"pod " + self.settings["name"].encode()[-11:], 0, 0, 0)
        wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._report("entered", os.getpid(), *self._enter())
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self.server, select.POLLIN)
        while True:
            ready = [fd for fd, _mask in poll.poll()]
            if wakeup in ready:
                os.read(wakeup, 4096)
                self._reap()
            if self.server.fileno() in ready and not self._serve():
                break
        self._end()
        self._report("ended")

    def _enter(self) -> tuple[bool, bool]:
        settings = self.settings
        wants_mounts = bool(settings["mounts"] or settings["hosts"])
        named = mounted = False
        with contextlib.suppress(OSError):  # told by what is returned: a pod without these works too
            if self.mounts and wants_mounts:
                _unshare(mounts=True)
                socket.sethostname(settings["name"])
                named = True
                _mount_folders(settings["mounts"], settings["hosts"], settings["stage"])
                mounted = True
            elif self.hostname:
                _unshare(mounts=False)
                socket.sethostname(settings["name"])
                named = True
        return named, mounted

    def _serve(self) -> bool:
        message, fds = _receive(self.server)
        if message is None or message[0] == "end":
            return False
        if message[0] == "exec":
            self._exec(fds, *message[1:])
        elif message[0] == "signal":
            with contextlib.suppress(ProcessLookupError):
                os.kill(message[1], message[2])
        for fd in fds:
            os.close(fd)
        return True

    def _exec(
        self, fds: list[int], number: int, argv: list[bytes], environ: dict[bytes, bytes], folder: str, tty: str
    ) -> None:
        try:
            os.chdir(folder)
            if os.fsdecode(argv[0]) in self.settings["missing"]:
                raise FileNotFoundError(errno.ENOENT, "")
            path = _found(argv[0], environ.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin"))
            actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)]
            if tty:  # opened by a session leader, it becomes its controlling terminal
                actions = [(os.POSIX_SPAWN_OPEN, 0, tty, os.O_RDWR, 0)]
                actions += [(os.POSIX_SPAWN_DUP2, 0, target) for target in (1, 2)]
            pid = os.posix_spawn(
                path,
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
        self.running[pid] = number
        self._report("started", number, pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self.running.pop(pid, None)
            if number is not None:
                code = os.waitstatus_to_exitcode(status)
                self._report("exited", number, code if code >= 0 else 128 - code)

    def _end(self) -> None:
        """Kill every process of the pod. Orphans become our children when their parents die: so until none is left."""
        rounds = 0
        while rounds < 10_000:
            rounds += 1
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
            self.server.send(marshal.dumps(message))


def _found(name: bytes, path: bytes) -> bytes:
    """Where the executable is, by the container's PATH, as runc looks it up."""
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


if __name__ == "__main__":
    main()
