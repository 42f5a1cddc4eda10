"""What an sshd says first (RFC 4253, 4.2): by it one knows that there is one, without a key."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

GREETING = b"SSH-2.0-mpi-agents\r\n"  # who answers a banner by it before he leaves is no error in sshd's log

_BEGIN = b"SSH-"
_LIMIT = 8192  # bytes; a server may send other lines first, and none that is an sshd sends that many


class NotSshError(OSError):
    """Something answered that is no ssh server, or one that takes no connection now."""


def find(received: bytes) -> str | None:
    """Return the line with which an ssh server names itself, or None while more must be read. Raises NotSshError."""
    for line in received.split(b"\n")[:-1]:
        if line.startswith(_BEGIN):
            return line.rstrip(b"\r").decode("ascii", "replace")
    if len(received) >= _LIMIT:
        raise NotSshError("what answers there is no sshd")
    return None


def is_banner(received: bytes) -> bool:
    """Whether an ssh server has named itself in what was received."""
    try:
        return find(received) is not None
    except NotSshError:
        return False


def ask(host: str, port: int, timeout_s: float) -> str:
    """Return the banner of the sshd at an address or name.

    Raises OSError: as connecting does (ConnectionRefusedError, TimeoutError, socket.gaierror), or NotSshError.
    """
    until = time.monotonic() + timeout_s
    received = b""
    with socket.create_connection((host, port), timeout_s) as connection:
        while True:
            connection.settimeout(max(until - time.monotonic(), 0.001))
            chunk = connection.recv(_LIMIT)
            received += chunk
            banner = find(received)
            if banner is not None:
                with suppress(OSError):
                    connection.sendall(GREETING)
                return banner
            if not chunk:
                said = received.split(b"\n")[0].decode("ascii", "replace").strip()
                raise NotSshError(f"it closed the connection{f' and said {said!r}' if said else ''}")
