"""Files that are replaced at once, so that nobody sees half of one, and files that others change."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress


def replace(path: str, mode: int, fill: Callable[[int], object]) -> None:
    """Write a file under another name, have `fill(fd)` write its content, and rename it to `path`.

    The other name is a fixed one: what a process left there when it was killed is removed by the next. Raises OSError,
    and what `fill` raises.
    """
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.part")
    with suppress(FileNotFoundError):
        os.unlink(part)
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fill(fd)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def plain_opener(path: str, flags: int) -> int:
    """Open a file for `open` where another container may write: it follows no links and waits for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def content(path: str, most: int) -> bytes | None:
    """Return at most `most` bytes of a file; None if it can't be read."""
    try:
        with open(path, "rb", opener=plain_opener) as file:
            return file.read(most)
    except OSError:
        return None


class WatchedFile:
    """A file that others change while we run, as a ConfigMap's volume does; `data` is None while there is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data: bytes | None = None
        self._seen: tuple[int, int, int, int] | None = None

    def refresh(self) -> bool:
        """Read the file if it changed; say whether it did."""
        try:
            found = os.stat(self.path)
            seen = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return False
            with open(self.path, "rb") as file:
                data: bytes | None = file.read()
        except OSError:
            seen, data = None, None
        changed = data != self.data
        self._seen, self.data = seen, data
        return changed
