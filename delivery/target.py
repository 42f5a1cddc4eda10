"""Files and folders in the target folder, each written under another name and then renamed, so never seen incomplete.

The target is a volume that the user's containers mount too, with other uids: files are readable by all, and executable
by all where the source is. A folder's file VERSION names its content: a folder of the same version
is not replaced, as programs may run from it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from agents.common import files
from delivery.exits import TARGET, TOOL_MISSING, DeliveryError

_CHUNK = 256 * 1024
_AT_ONCE = 1 << 30
_WORDS = {
    errno.EROFS: "its file system is read-only",
    errno.ENOSPC: "its file system is full",
    errno.EDQUOT: "its quota is used up",
    errno.EFBIG: "a file there may not be that large",
    errno.EISDIR: "there is a folder of that name",
    errno.ENOTDIR: "part of the path is not a folder",
}


def write_file(path: str, data: bytes) -> None:
    """Write `data` to `path`, mode 0644, atomically. Raises DeliveryError."""
    _replace(path, 0o644, lambda fd: files.write_all(fd, data))


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
            files.write_all(fd, chunk)
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
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder or ".", exist_ok=True)
        files.replace(path, mode, fill)
    except OSError as error:
        raise DeliveryError(TARGET, f"{path} can't be written: {reason(error, folder)}") from None


def reason(error: OSError, folder: str) -> str:
    """Say why the target can't be written."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"uid {os.geteuid()} may not write to {folder}"
    return _WORDS.get(error.errno or 0) or error.strerror or "the system gives no reason"


_VERSION, _VERSION_MAX = "VERSION", 4096  # bytes
_FOLDER_MODE = 0o755


def copy_tree(source: str, path: str) -> bool:
    """Copy the folder `source` to `path`, atomically; return False if it was there already.

    Raises DeliveryError if the target can't take it, or the source can't be read or has links that lead out of it.
    """
    version, there = (files.content(os.path.join(at, _VERSION), _VERSION_MAX) for at in (source, path))
    if version and version == there:
        return False
    folder, name = os.path.split(path)
    part, old = os.path.join(folder, f".{name}.part"), os.path.join(folder, f".{name}.old")
    try:
        for path_left in (part, old):  # by a delivery that was killed
            _remove(path_left)
        os.makedirs(folder or ".", exist_ok=True)
        _copy_folder(source, part, os.path.realpath(source))
        # A folder can't be renamed onto another that is not empty.
        with suppress(FileNotFoundError):
            os.rename(path, old)
        os.rename(part, path)
        _remove(old)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise DeliveryError(TARGET, f"{path} can't be written: {reason(error, folder)}") from None
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return True


def _copy_folder(source: str, path: str, root: str) -> None:
    os.mkdir(path)
    for entry in _entries(source):
        to = os.path.join(path, entry.name)
        if entry.is_symlink():
            os.symlink(_link(entry.path, root), to)
        elif entry.is_dir():
            _copy_folder(entry.path, to, root)
        elif entry.is_file():
            _copy_file(entry.path, to)
        else:
            raise DeliveryError(TOOL_MISSING, f"{entry.path} is neither a file nor a folder")
    os.chmod(path, _FOLDER_MODE)  # whatever the umask


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _copy_file(source: str, path: str) -> None:
    try:
        source_fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _unreadable(source, error) from None
    with open(source_fd, "rb"), open(path, "xb", opener=_private) as file:
        transfer(source_fd, file.fileno())
        os.fchmod(file.fileno(), 0o755 if os.fstat(source_fd).st_mode & 0o111 else 0o644)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(folder, error) from None


def _link(path: str, root: str) -> str:
    """Return where a link points to, if that is within the folder that is copied."""
    try:
        to = os.readlink(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    end = os.path.realpath(path)
    if os.path.isabs(to) or os.path.commonpath([root, end]) != root:
        raise DeliveryError(TOOL_MISSING, f"{path} is a link that leads out of {root}, and is not followed")
    return to


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _unreadable(path: str, error: OSError) -> DeliveryError:
    return DeliveryError(TOOL_MISSING, f"{path} can't be read: {error.strerror}")
