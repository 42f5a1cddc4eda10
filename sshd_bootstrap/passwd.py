"""/etc/passwd and /etc/group for a uid that no image knows. Pure.

ssh refuses to run as a uid without a name, and sshd lets none in. The image's own files can't be seen from here, so
these have what OpenSSH itself asks for besides, and nothing more.
"""

from __future__ import annotations

import os

USER = "mpiuser"  # as in mpi-operator's images
_NOBODY = 65534
_SSHD = 100
_SHELL = "/bin/sh"  # the only one that can be hoped for
_NONE = "/usr/sbin/nologin"


def home(mount_path: str, uid: int) -> str:
    """Return the folder that has the keys in .ssh, if the uid may enter that, as no other than root may enter /root."""
    folder, name = os.path.split(mount_path)
    is_home = name == ".ssh" and folder not in ("", "/", "/root")
    return "/root" if uid == 0 else folder if is_home else "/tmp"  # noqa: S108 (every image has it)


def passwd(uid: int, gid: int, mount_path: str) -> str:
    """Return the lines of /etc/passwd. `*`: no password, and no account that is locked either."""
    lines = [
        f"root:*:0:0:root:/root:{_SHELL}",
        f"sshd:*:{_SSHD}:{_NOBODY}:privilege separation:/run/sshd:{_NONE}",
        f"nobody:*:{_NOBODY}:{_NOBODY}:nobody:/nonexistent:{_NONE}",
    ]
    if uid != 0:  # first: a uid that has two names has the first
        lines.insert(0, f"{USER}:*:{uid}:{gid}:the job's user:{home(mount_path, uid)}:{_SHELL}")
    return "".join(f"{line}\n" for line in lines)


def group(gid: int) -> str:
    """Return the lines of /etc/group; sshd gives terminals to the group tty."""
    lines = ["root:*:0:", "tty:*:5:", f"nogroup:*:{_NOBODY}:"]
    if gid not in (0, 5, _NOBODY):
        lines.insert(0, f"{USER}:*:{gid}:")
    return "".join(f"{line}\n" for line in lines)
