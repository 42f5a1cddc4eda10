"""Files in the target folder: written whole under another name and then renamed, so nobody sees half of one.

The folder is a volume that the user's containers mount too, under other uids: files are readable by all, and executable
by all where the source is.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from delivery.exits import TARGET, DeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 256 * 1024
_AT_ONCE = 1 << 30
_WORDS = {
    errno.EROFS: "its file system is read-only",
    errno.ENOSPC: "its file system is full",
    errno.EDQUOT: "its quota is used up",
    errno.EFBIG: "a file there may not be that large",
    errno.EISDIR: "a folder of that name is there",
    errno.ENOTDIR: "part of the path is not a folder",
}


def write_file(path: str, data: bytes) -> None:
    """Write `data` to `path`, mode 0644, atomically. Raises DeliveryError."""
    _replace(path, 0o644, lambda fd: _write_all(fd, data))


def copy_file(source_fd: int, path: str) -> bool:
    """Copy an open file to `path`, atomically; return False if it was there already, with content and mode.

    Raises DeliveryError if the target can't take it, OSError if the source can't be read.
    """
    mode = 0o755 if os.fstat(source_fd).st_mode & 0o111 else 0o644
    if _is_there(source_fd, path, mode):
        return False

    _replace(path, mode, lambda fd: transfer(source_fd, fd))
    return True


def transfer(source_fd: int, fd: int) -> None:
    """Copy a whole file: by the kernel, as an init container may have a tenth of a CPU, and tools have megabytes."""
    offset = 0
    try:
        while sent := os.sendfile(fd, source_fd, offset, _AT_ONCE):
            offset += sent
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        while chunk := os.pread(source_fd, _CHUNK, offset):  # a file system that can't
            _write_all(fd, chunk)
            offset += len(chunk)


def _is_there(source_fd: int, path: str, mode: int) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        there, source = os.fstat(fd), os.fstat(source_fd)
        if not stat.S_ISREG(there.st_mode) or there.st_size != source.st_size or there.st_mode & 0o7777 != mode:
            return False
        return all(
            os.pread(fd, _CHUNK, offset) == os.pread(source_fd, _CHUNK, offset)
            for offset in range(0, source.st_size, _CHUNK)
        )
    finally:
        os.close(fd)


def _replace(path: str, mode: int, fill: Callable[[int], None]) -> None:
    folder, name = os.path.split(path)
    # One fixed name: what an earlier delivery left when it was killed is taken away by the next.
    part = os.path.join(folder, f".{name}.part")
    try:
        os.makedirs(folder or ".", exist_ok=True)
        _unlink(part)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fill(fd)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.rename(part, path)
    except OSError as error:
        _unlink_quietly(part)
        raise DeliveryError(TARGET, f"{path} can't be written: {reason(error, folder)}") from None
    except BaseException:
        _unlink_quietly(part)
        raise


def reason(error: OSError, folder: str) -> str:
    """Say why the target can't be written."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"uid {os.geteuid()} may not write to {folder}"
    return _WORDS.get(error.errno or 0) or error.strerror or "the system gives no reason"


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _unlink_quietly(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
