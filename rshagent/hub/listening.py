"""The hub's socket: one hub serves a path, and a path that a hub left behind when it died is taken over."""

from __future__ import annotations

import contextlib
import os
import socket

from rshagent.net.cluster import ConfigError

_BACKLOG = 1024


def listen(path: str, mode: int = 0o666) -> socket.socket:
    """Return a listening Unix socket at `path`. Raises ConfigError."""
    if is_served(path):
        raise ConfigError(f"another hub serves {path}")
    fresh = f"{path}.{os.getpid()}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        sock.bind(fresh)
        # The user's container may run as any user; who may reach the socket is decided by who has the volume.
        os.chmod(fresh, mode)
        sock.listen(_BACKLOG)
        os.rename(fresh, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the socket {path} can't be made: {reason}; is its folder a writable volume?") from None
    return sock


def is_served(path: str) -> bool:
    """Say whether somebody accepts connections at `path`: a hub that died leaves its socket behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True
