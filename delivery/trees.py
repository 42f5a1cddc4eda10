"""Folders in the target folder: copied whole under another name and then renamed, so nobody sees half of one.

A folder's file VERSION tells what is in it: one that is there already with the same version is left alone, and so is
what runs from it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from delivery.exits import TARGET, TOOL_MISSING, DeliveryError
from delivery.target import reason, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = "VERSION"
_FOLDER_MODE = 0o755


def copy_tree(source: str, path: str) -> bool:
    """Copy the folder `source` to `path`, at once; return False if it was there already.

    Raises DeliveryError if the target can't take it, or the source can't be read or has links that lead out of it.
    """
    version = _version_of(source)
    if version and version == _version_of(path):
        return False
    folder, name = os.path.split(path)
    part, old = os.path.join(folder, f".{name}.part"), os.path.join(folder, f".{name}.old")
    try:
        for leftover in (part, old):  # of a delivery that was killed
            _remove(leftover)
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


def _copy_file(source: str, path: str) -> None:
    try:
        source_fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _unreadable(source, error) from None
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            transfer(source_fd, fd)
            os.fchmod(fd, 0o755 if os.fstat(source_fd).st_mode & 0o111 else 0o644)
        finally:
            os.close(fd)
    finally:
        os.close(source_fd)


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


def _version_of(folder: str) -> bytes:
    try:
        fd = os.open(os.path.join(folder, _VERSION), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(4096)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _unreadable(path: str, error: OSError) -> DeliveryError:
    return DeliveryError(TOOL_MISSING, f"{path} can't be read: {error.strerror}")
