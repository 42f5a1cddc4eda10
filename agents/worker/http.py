"""A small HTTP/1.1 server on the loop: GET and HEAD of a few paths, one answer a connection (RFC 9110, 9112).

Clients that are slow, send garbage or come in crowds cost a descriptor for some seconds, and nobody else's answer.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from rshagent.loop import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rshagent.loop import Loop, Timer

PATIENCE_S = 10.0
HEAD_MAX = 8192
CLIENTS_MAX = 64
_AGAIN_S = 0.5
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"


class Answer(NamedTuple):
    """A status code and a text."""

    code: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


def answer(head: bytes, routes: Mapping[str, Callable[[], Answer]]) -> bytes:
    """Return the whole answer to a request's head."""
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        given = Answer(400, "this is no HTTP/1 request\n")
    elif words[0] not in (b"GET", b"HEAD"):
        given = Answer(405, "GET and HEAD alone are known here\n")
    else:
        route = routes.get(words[1].partition(b"?")[0].decode("ascii", "replace"))
        given = route() if route else Answer(404, f"there are {', '.join(routes)}\n")
    body = given.text.encode()
    allow = "Allow: GET, HEAD\r\n" if given.code == 405 else ""
    fields = (
        f"HTTP/1.1 {given.code} {_REASONS[given.code]}\r\nContent-Type: {given.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{allow}Connection: close\r\n\r\n"
    )
    return fields.encode() + (b"" if words[0] == b"HEAD" else body)


class HttpServer:
    """Answers at a listening socket, which it owns."""

    def __init__(self, loop: Loop, listener: socket.socket, routes: Mapping[str, Callable[[], Answer]]) -> None:
        self._loop, self._socket, self._routes = loop, listener, routes
        self._clients: dict[_Client, None] = {}
        self._pause: Timer | None = None
        listener.setblocking(False)
        self._listen()

    @property
    def clients(self) -> int:
        """Connections that wait for their answer."""
        return sum(not client.is_answered for client in self._clients)

    def close(self) -> None:
        """Accept nobody any more; who has connected is answered."""
        if self._pause is not None:
            self._pause.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove(self._socket.fileno())
            self._socket.close()

    def _listen(self) -> None:
        self._loop.add(self._socket.fileno(), READ, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors: the next try is not at once
            self._loop.remove(self._socket.fileno())
            self._pause = self._loop.call_later(_AGAIN_S, self._listen)
            return
        connection.setblocking(False)
        if len(self._clients) >= CLIENTS_MAX:
            next(iter(self._clients)).close()
        client = _Client(self._loop, connection, self._routes, self._clients)
        self._clients[client] = None


class _Client:
    """One connection: reads a head, writes an answer."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        routes: Mapping[str, Callable[[], Answer]],
        clients: dict[_Client, None],
    ) -> None:
        self._loop, self._socket, self._routes, self._clients = loop, connection, routes, clients
        self._seen = bytearray()
        self._left = memoryview(b"")
        self.is_answered = False
        self._patience = loop.call_later(PATIENCE_S, self.close)
        loop.add(connection.fileno(), READ, self._read)

    def close(self) -> None:
        """End the connection."""
        self._patience.cancel()
        self._clients.pop(self, None)
        if self._socket.fileno() >= 0:
            self._loop.remove(self._socket.fileno())
            self._socket.close()

    def _read(self, _events: int) -> None:
        try:
            data = self._socket.recv(4096)
        except OSError:
            self.close()
            return
        self._seen += data
        if b"\r\n\r\n" not in self._seen and len(self._seen) <= HEAD_MAX:
            if not data:
                self.close()
            return
        self._left = memoryview(answer(bytes(self._seen), self._routes))
        self._loop.remove(self._socket.fileno())
        self._loop.add(self._socket.fileno(), WRITE, self._write)

    def _write(self, _events: int) -> None:
        try:
            self._left = self._left[self._socket.send(self._left) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not self._left:
            self._end()

    def _end(self) -> None:
        """Say that this was all, and take in what is still sent: a close before that can cost the client its answer."""
        self.is_answered = True
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._loop.remove(self._socket.fileno())
        self._loop.add(self._socket.fileno(), READ, self._ignore)

    def _ignore(self, _events: int) -> None:
        try:
            ended = not self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self.close()
