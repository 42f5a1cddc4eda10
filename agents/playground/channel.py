"""The control channel between handle and server: pickled messages, each followed by its file descriptors."""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence


class Channel:
    """One end of a Unix stream socket. It waits for the other side to take a message, or to send the next one."""

    def __init__(self, sock: socket.socket) -> None:
        self._connection = Connection(sock.detach())
        self.fd = self._connection.fileno()

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a message. Raises OSError if there is no other side."""
        self._connection.send((dict(message), len(fds)))
        for fd in fds:
            send_handle(self._connection, fd, 0)  # the process id is for Windows

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Wait for the next message; None at the end."""
        try:
            message, count = self._connection.recv()
            return message, [recv_handle(self._connection) for _ in range(count)]
        except (EOFError, OSError):
            return None

    def close(self) -> None:
        """Close this end; the other side sees the end."""
        self._connection.close()
