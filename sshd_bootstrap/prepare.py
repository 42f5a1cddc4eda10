"""Writes what the user's container needs for ssh and sshd, before it starts, and again when the keys have changed.

What is wrong besides the keys, and can be seen without the user's image, ends it with one line and an exit code.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agents.common import files
from sshd_bootstrap import keys, layout, paths
from sshd_bootstrap.exits import HELPER_MISSING, MODE_CHANGED, PORT, VOLUME, BootstrapError
from sshd_bootstrap.layout import File
from sshd_bootstrap.settings import Role, Settings, User

_REASONS = {
    errno.EROFS: "it is mounted read-only",
    errno.ENOSPC: "it is full",
    errno.EDQUOT: "its quota is used up",
    errno.ENOENT: "it is not there",
}


def check_port(settings: Settings) -> None:
    """Refuse a port that our sshd could not take as the uid that the template names. Raises BootstrapError."""
    is_ours = settings.role is Role.WORKER and not settings.has_own_config
    if is_ours and settings.user is User.NAMED and settings.uid != 0 and settings.port < settings.unprivileged_ports:
        raise BootstrapError(
            PORT,
            f"port {settings.port} is for root or the capability NET_BIND_SERVICE, and the workers run as uid "
            f"{settings.uid}: choose a port of {max(settings.unprivileged_ports, 1024)} or above (ssh.port)",
        )


def check_mode(path: str, wanted: int, found: int) -> None:
    """Refuse a file that did not get the mode it was given. Raises BootstrapError."""
    if wanted & 0o777 != found & 0o777:
        raise BootstrapError(
            MODE_CHANGED,
            f"{path} has mode {found & 0o777:04o}, though it was given {wanted:04o}: fsGroup or the volume's file "
            "system changes modes, and ssh refuses such keys; take fsGroup out of the template, or use an emptyDir",
        )


def volume_error(error: OSError, path: str, uid: int) -> BootstrapError:
    """Say why something can't be written to the volume."""
    if error.errno in (errno.EACCES, errno.EPERM):
        why = f"uid {uid} may not; it must be an emptyDir that this uid may write to"
    else:
        why = f"{_REASONS.get(error.errno or 0) or error.strerror}; it must be an emptyDir with room for 1 MiB"
    return BootstrapError(VOLUME, f"{path} in the volume of the ssh keys can't be written: {why}")


def prepare(settings: Settings) -> None:
    """Check the Secret and write all files into the memory volume; equal files stay. Raises BootstrapError.

    Each file is replaced atomically, the host key last: by it sshd-start knows that the keys have changed.
    """
    check_port(settings)
    with _alone(settings):  # also while the Secret is read: the last writer must not have older keys
        pair = keys.read(settings.keys)
        helper = _helper(settings.tools) if settings.has_helper else b""
        _write_all(settings, layout.files(settings, pair, helper))


def let_start(settings: Settings) -> None:
    """If ssh can't be prepared, write what the user's container can't start without. Raises BootstrapError."""
    helper = _helper(settings.tools)
    with _alone(settings):
        _write_all(settings, layout.without_keys(settings, helper))


def set_ports(settings: Settings, ports: Mapping[str, int]) -> None:
    """Have ssh use these ports, by host, at which sshds with the image's own configuration answer.

    Raises BootstrapError.
    """
    with _alone(settings):
        for file in layout.ssh_configs(settings, ports):
            _write(settings, file)


def _write_all(settings: Settings, wanted: Iterable[File]) -> None:
    for folder, mode in layout.folders(settings):
        _make(settings, os.path.join(settings.volume, folder), mode)
    for file in wanted:
        _write(settings, file)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Let one process write at a time: when the sidecar restarts, its hook and delivery both prepare."""
    try:
        fd = os.open(settings.volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise volume_error(error, settings.volume, settings.uid) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _helper(tools: str) -> bytes:
    path = os.path.join(tools, paths.HELPER)
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BootstrapError(
            HELPER_MISSING, f"{path} can't be read: {error.strerror}; this image is not the project's own, or broken"
        ) from None


def _make(settings: Settings, path: str, mode: int) -> None:
    try:
        with suppress(FileExistsError):
            os.mkdir(path)
        if os.stat(path).st_mode & 0o1777 != mode:
            os.chmod(path, mode)
    except OSError as error:
        raise volume_error(error, path, settings.uid) from None


def _write(settings: Settings, file: File) -> None:
    path = os.path.join(settings.volume, file.path)
    try:
        if file.is_kept and os.path.exists(path):
            return
        if not _is_there(path, file):
            files.replace(path, file.mode, lambda fd: files.write_all(fd, file.content))
        found = os.stat(path).st_mode
    except OSError as error:
        raise volume_error(error, path, settings.uid) from None
    check_mode(path, file.mode, found)


def _is_there(path: str, file: File) -> bool:
    """Whether it has this content and mode. The user's container may write here: links and pipes are not followed."""
    try:
        with open(path, "rb", opener=files.plain_opener) as there:
            found = os.fstat(there.fileno())
            return found.st_mode == stat.S_IFREG | file.mode and there.read(len(file.content) + 1) == file.content
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return False
        raise
