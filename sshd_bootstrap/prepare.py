"""Writes what the user's container needs for ssh and sshd, before it starts, and again when the keys have changed.

What is wrong besides the keys, and can be seen without the user's image, ends it with one line and an exit code.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sshd_bootstrap import keys, layout, paths
from sshd_bootstrap.exits import HELPER_MISSING, MODE_CHANGED, PORT, VOLUME, BootstrapError
from sshd_bootstrap.settings import Role, User

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sshd_bootstrap.layout import File, Folder
    from sshd_bootstrap.settings import Settings

_WORDS = {
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
        why = f"{_WORDS.get(error.errno or 0) or error.strerror}; it must be an emptyDir with room for 1 MiB"
    return BootstrapError(VOLUME, f"{path} in the volume of the ssh keys can't be written: {why}")


def prepare(settings: Settings) -> None:
    """Check the Secret and write everything into the memory volume; what is there already stays. Raises BootstrapError.

    Each file is replaced at once, the host key last: by it sshd-start knows that the keys have changed.
    """
    check_port(settings)
    with _alone(settings):  # also while the Secret is read: who is the last to write has no older keys
        pair = keys.read(settings.keys)
        helper = _helper(settings.tools) if settings.has_helper else b""
        _write_all(settings, layout.files(settings, pair, helper))


def let_start(settings: Settings) -> None:
    """Write what the user's container can't start without, where ssh can't be prepared. Raises BootstrapError."""
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


def _write_all(settings: Settings, files: Iterable[File]) -> None:
    for folder in layout.folders(settings):
        _make(settings, folder)
    for file in files:
        _write(settings, file)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Let one write at a time: when its sidecar is started again, the hook prepares beside delivery, which does too."""
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


def _make(settings: Settings, folder: Folder) -> None:
    path = os.path.join(settings.volume, folder.path)
    try:
        with suppress(FileExistsError):
            os.mkdir(path)
        if os.stat(path).st_mode & 0o1777 != folder.mode:
            os.chmod(path, folder.mode)
    except OSError as error:
        raise volume_error(error, path, settings.uid) from None


def _write(settings: Settings, file: File) -> None:
    path = os.path.join(settings.volume, file.path)
    try:
        if file.is_kept and os.path.exists(path):
            return
        if not _is_there(path, file):
            _replace(path, file)
        found = os.stat(path).st_mode
    except OSError as error:
        raise volume_error(error, path, settings.uid) from None
    check_mode(path, file.mode, found)


def _is_there(path: str, file: File) -> bool:
    """Whether it is this very file. The user's container may write here: neither a link nor a pipe is followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return False
        raise
    with open(fd, "rb") as there:
        found = os.fstat(fd)
        return found.st_mode == stat.S_IFREG | file.mode and there.read(len(file.content) + 1) == file.content


def _replace(path: str, file: File) -> None:
    folder, name = os.path.split(path)
    # One fixed name: what was left by a preparation that was killed is taken away by the next.
    part = os.path.join(folder, f".{name}.part")
    with suppress(FileNotFoundError):
        os.unlink(part)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(file.content)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, file.mode)
    finally:
        os.close(fd)
    os.rename(part, path)
