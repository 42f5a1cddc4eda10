"""The control channel between handle and server: JSON messages with file descriptors over a Unix stream socket."""

from __future__ import annotations

import array
import json
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEAD = 4  # bytes of a message's length


class Channel:
    """One end. Messages are sent whole, each after its length; its descriptors travel with its first byte."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._fds: list[int] = []
        self.fd = sock.fileno()

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send, waiting for the other side to take it. Raises OSError if there is no other side."""
        data = json.dumps({**message, "fds": len(fds)}).encode()
        framed = len(data).to_bytes(_HEAD, "big") + data
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())] if fds else []
        sent = self._socket.sendmsg([framed], rights)
        self._socket.sendall(framed[sent:])

    def close(self) -> None:
        """Close this end; the other side sees the end."""
        self._socket.close()

    def wait(self) -> tuple[dict[str, Any], list[int]] | None:
        """Wait for the next message; None at the end."""
        while True:
            message = self.next()
            if message is not None or not self.fill():
                return message

    def fill(self, flags: int = 0) -> bool:
        """Read what is there; False at the end."""
        space = socket.CMSG_SPACE(16 * array.array("i").itemsize)
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(1 << 20, space, flags | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for _level, _kind, payload in ancillary:
            fds = array.array("i")
            fds.frombytes(payload)
            self._fds += fds
        self._buffer += data
        return bool(data)

    def next(self) -> tuple[dict[str, Any], list[int]] | None:
        """A message that is whole already, with the descriptors that came with it."""
        size = int.from_bytes(self._buffer[:_HEAD], "big")
        if len(self._buffer) < _HEAD or len(self._buffer) < _HEAD + size:
            return None
        message = json.loads(self._buffer[_HEAD : _HEAD + size])
        del self._buffer[: _HEAD + size]
        count = message.pop("fds")
        fds, self._fds = self._fds[:count], self._fds[count:]
        return message, fds
