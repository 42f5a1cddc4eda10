"""Linux namespaces for pods, through ctypes (Python has os.unshare from 3.12 on). Imported by zygote and shims only.

What a pod can have of its own depends on the system: root has it plainly, others inside a user namespace, if they may
make one. So it is tried once; each level includes those below.
"""

from __future__ import annotations

import ctypes
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOTHING, MOUNTS, PROCESSES = range(3)

_NEWNS, _NEWUTS, _NEWUSER, _NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
_MS_NOSUID_NODEV_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2 | 4 | 8, 4096, 16384, 1 << 18
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36

_libc = ctypes.CDLL(None, use_errno=True)


def possible() -> int:
    """The highest level that works here."""
    return next((level for level in (PROCESSES, MOUNTS) if _works(os.fork, _probe, level)), NOTHING)


def _probe(level: int) -> None:
    prepare(level)
    if not _works(lambda: fork(level), enter, "probe", level):
        raise OSError


def _works(start: Callable[[], int], call: Callable[..., object], *arguments: Any) -> bool:
    """Whether a call raises no OSError. It is made in a child that `start` forks, as it can't be undone."""
    pid = start()
    if pid == 0:
        try:
            call(*arguments)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def prepare(level: int) -> None:
    """Be able to make what pods have of their own. Raises OSError.

    It may take a user namespace, which maps the user to itself; and as `fork` has to come back from a pid namespace, we
    have to be in one that is ours: the caller continues in a child, its first process, and this process waits.
    """
    if level == NOTHING:
        return
    if os.geteuid() != 0 or not _works(os.fork, _unshare, _NEWUTS):
        uid, gid = os.geteuid(), os.getegid()
        _unshare(_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    if level == PROCESSES:
        _unshare(_NEWPID)
        pid = os.fork()
        if pid != 0:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)


def fork(level: int) -> int:
    """As os.fork, but the child is the first process of a pid namespace, if pods can have one. Raises OSError."""
    if level < PROCESSES:
        return os.fork()
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _unshare(_NEWPID)  # of the children to come, not of ourselves
        pid = os.fork()
        if pid != 0:
            _check(_libc.setns(own, _NEWPID))
        return pid
    finally:
        os.close(own)


def enter(name: str, level: int) -> None:
    """Be a pod of this name: own host name and mounts, and by level own /proc and /dev/shm. Raises OSError."""
    if level == NOTHING:
        return
    _unshare(_NEWUTS | _NEWNS)
    socket.sethostname(name)
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    if level >= PROCESSES:
        _mount("proc", "/proc", "proc", _MS_NOSUID_NODEV_NOEXEC, None)
        _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID_NODEV_NOEXEC, "mode=1777")  # noqa: S108


def show(mounts: dict[str, str], hosts: str, stage: str) -> None:
    """Show each folder (or file) at its path, and the hosts file. Raises OSError.

    A path that isn't there yet is made by an overlay on its parent, whose own layer is put in the folder `stage`.
    Overlays in user namespaces need Linux 5.11.
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
    if os.path.exists("/etc/hosts"):
        _mount(hosts, "/etc/hosts", None, _MS_BIND, None)


def adopt_orphans(name: str) -> None:
    """Become the parent of what descendants leave behind, and be called `name` by ps."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    texts: list[Any] = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def _unshare(kinds: int) -> None:
    _check(_libc.unshare(kinds))


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
