"""What an sshd says first (RFC 4253, 4.2): by it one knows that there is one, without a key. Pure."""

from __future__ import annotations

BUSY = (b"Exceeded MaxStartups", b"Not allowed at this time")
"""How an sshd begins that has no place for a client, or turns its address away (OpenSSH, sshd.c: drop_connection)."""

_BEGIN = b"SSH-"


def is_banner(received: bytes) -> bool:
    """Whether an ssh server has named itself, in a whole line of what was received: others may come before."""
    return any(line.startswith(_BEGIN) for line in received.split(b"\n")[:-1])
