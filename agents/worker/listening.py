"""Which sockets listen, by the kernel's list: sshd is watched without a connection to it.

A connection costs sshd a process and its log a line, so it is asked for its banner only when its socket is another.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTEN = "0A"  # TCP_LISTEN, include/net/tcp_states.h
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ANY = {"00000000": "127.0.0.1", "0" * 32: "::1"}


class Listener(NamedTuple):
    """A listening socket: how to reach it, and its inode, which no other socket has as long as it lives."""

    port: int
    address: str = "127.0.0.1"
    inode: int = 0


def read(ports: Iterable[int]) -> dict[int, Listener] | None:
    """Return who listens at these ports of this network namespace; None where the kernel doesn't tell."""
    wanted = frozenset(ports)
    found: dict[int, Listener] = {}
    tables = 0
    for path in _TABLES:
        with contextlib.suppress(OSError), open(path, encoding="ascii") as table:
            next(table, None)
            tables += 1
            for listener in listeners(table):
                if listener.port in wanted:
                    found.setdefault(listener.port, listener)
    return found if tables else None


def listeners(lines: Iterable[str]) -> Iterable[Listener]:
    """Yield the listening sockets of /proc/net/tcp or tcp6, without its heading.

    The kernel lists them before all others (tcp_seq_start): a node's thousands of connections need not be read.
    """
    for line in lines:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTEN:
            return
        address, _, port = fields[1].partition(":")
        yield Listener(int(port, 16), _ANY.get(address) or _readable(address), int(fields[9]))


def _readable(address: str) -> str:
    """Return an address from the kernel's form: words of 32 bits in this machine's order of bytes."""
    import socket  # noqa: PLC0415 (an sshd that listens at one address alone is rare)
    import sys  # noqa: PLC0415

    words = [bytes.fromhex(address[at : at + 8]) for at in range(0, len(address), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
