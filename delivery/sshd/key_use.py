"""Whether a launcher's ssh key is opened: without that nobody can have logged in to a worker, whatever its ssh."""

from __future__ import annotations

import os
from collections.abc import Sequence

_OPEN, _DELETE_SELF = 0x20, 0x400  # inotify(7): sys/inotify.h


class KeyUse:
    """Follows some files from now on. By inotify: it sees the opens of all containers, and through read-only mounts."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._fd = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        added = [_call("inotify_add_watch", self._fd, os.fsencode(key), _OPEN | _DELETE_SELF) for key in keys]
        self._is_followed = min(self._fd, *added) >= 0  # a user has a limited number of these

    @property
    def is_unused(self) -> bool:
        """Whether it is certain that nobody has opened them, nor replaced them by others."""
        try:
            return self._is_followed and not os.read(self._fd, 1024)
        except BlockingIOError:
            return True

    def close(self) -> None:
        """Stop following."""
        if self._fd >= 0:
            os.close(self._fd)


def _call(name: str, *arguments: int | bytes) -> int:
    """Call a function of the C library; -1 if it fails. Not by `ctypes`, which costs a megabyte."""
    import _ctypes  # noqa: PLC0415

    function = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), name)  # type: ignore[arg-type]  # ourselves
    return int(_ctypes.call_cdeclfunction(function, arguments))
