"""Which socket listens at a port of this network namespace, by the kernel: sshd is monitored without connections.

A connection costs sshd a process and a log line, so its banner is read only when its socket is a new one.
sock_diag(7) finds one socket by its address, of any owner; /proc/net/tcp would be read as a whole.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1
_TCP_LISTEN = 10  # include/net/tcp_states.h
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBBBI2s2s16s16sIII")  # struct inet_diag_req_v2
_ANSWER = struct.Struct("=BBBB2s2s16s16sIIIIIIII")  # struct inet_diag_msg
_NO_COOKIE = 0xFFFFFFFF
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Listener(NamedTuple):
    """A listening socket: how to reach it, and its inode, which no other socket has as long as it lives."""

    port: int
    address: str = "127.0.0.1"
    inode: int = 0


class SockDiag:
    """Asks the kernel."""

    def __init__(self, known_port: int) -> None:
        """`known_port` is one at which we listen: a kernel that doesn't find that one can't be relied on for others."""
        self._socket: socket.socket | None = None
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG)
            self._socket.setblocking(False)
        except OSError:
            self.close()
        if not self.read((known_port,)):
            self.close()

    def close(self) -> None:
        """Stop asking: `read` returns None from then on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def read(self, ports: Iterable[int]) -> dict[int, Listener] | None:
        """Return who listens at these ports; None if the kernel gives no answer."""
        if self._socket is None:
            return None
        try:
            return {port: found for port in ports if (found := self._find(self._socket, port)) is not None}
        except OSError:
            self.close()
            return None

    def _find(self, netlink: socket.socket, port: int) -> Listener | None:
        for family, address in _LOOPBACK:
            netlink.send(request(family, address, port))
            inode = inode_of(netlink.recv(8192))
            if inode is not None:
                return Listener(port, address, inode)
        return None


def request(family: int, address: str, port: int) -> bytes:
    """Return the message that asks for the socket that listens at an address and port."""
    packed = socket.inet_pton(family, address)
    body = _REQUEST.pack(
        family, socket.IPPROTO_TCP, 0, 0, 1 << _TCP_LISTEN,
        port.to_bytes(2, "big"), b"", packed, b"", 0, _NO_COOKIE, _NO_COOKIE,
    )  # fmt: skip
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + body


def inode_of(message: bytes) -> int | None:
    """Read the kernel's answer; None: there is no such socket. Raises OSError for any other refusal."""
    if len(message) < _HEADER.size:
        raise OSError(errno.EBADMSG, "a netlink message without a header")
    kind = _HEADER.unpack_from(message)[1]
    body = message[_HEADER.size :]
    if kind == _NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", body)
        if -number in (errno.ENOENT, 0):
            return None
        raise OSError(-number, "sock_diag")
    if kind != _SOCK_DIAG_BY_FAMILY or len(body) < _ANSWER.size:
        raise OSError(errno.EBADMSG, "an unknown netlink message")
    fields = _ANSWER.unpack_from(body)
    return int(fields[-1]) if fields[1] == _TCP_LISTEN else None
