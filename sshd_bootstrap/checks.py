"""What can be wrong besides the keys, and can be seen without the user's image: each is one line and an exit code."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from sshd_bootstrap.exits import MODE_CHANGED, PORT, VOLUME, BootstrapError
from sshd_bootstrap.settings import Role, User

if TYPE_CHECKING:
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
            f"{settings.uid}: name a port of {max(settings.unprivileged_ports, 1024)} or above (ssh.port)",
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
