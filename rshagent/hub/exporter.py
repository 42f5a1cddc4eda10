"""The metrics' HTTP endpoint: any request gets the metrics, and the connection is closed."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

from rshagent.hub.listening import HubError
from rshagent.proxy import split_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.loop import Loop

_PATIENCE_S = 10.0
_AGAIN_S = 0.5


class Exporter:
    """Serves `text()` at an address."""

    def __init__(self, loop: Loop, address: str, text: Callable[[], str]) -> None:
        """Listen. Raises HubError."""
        self._loop, self._text = loop, text
        try:
            host, port = split_host(address, 0)
            if not port:
                raise HubError(f"the metrics' address {address} has no port")
            family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, dualstack_ipv6=not host)
        except (OSError, ValueError) as error:
            raise HubError(f"metrics can't be served at {address}: {error}") from None
        self._socket.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        self._loop.add(self._socket.fileno(), select.EPOLLIN, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # out of descriptors: the next try is not at once
            self._loop.remove(self._socket.fileno())
            self._loop.call_later(_AGAIN_S, self._listen)
            return
        connection.setblocking(False)
        _Answer(self._loop, connection, self._text)


class _Answer:
    """One request's connection; what it asks does not matter, only that it has asked."""

    def __init__(self, loop: Loop, connection: socket.socket, text: Callable[[], str]) -> None:
        self._loop, self._connection, self._text = loop, connection, text
        self._patience = loop.call_later(_PATIENCE_S, self._close)
        self._seen = b""
        loop.add(connection.fileno(), select.EPOLLIN, self._read)

    def _read(self, _events: int) -> None:
        try:
            data = self._connection.recv(4096)
            self._seen += data
            if data and b"\r\n\r\n" not in self._seen and len(self._seen) < 65536:
                return
            body = self._text().encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n"
            # A few kilobytes: they fit into the socket's buffer, so this does not need to wait.
            self._connection.send(head.encode() + b"Connection: close\r\n\r\n" + body)
        except OSError:
            pass
        self._close()

    def _close(self) -> None:
        self._patience.cancel()
        self._loop.remove(self._connection.fileno())
        self._connection.close()
