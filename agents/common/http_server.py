"""A small HTTP/1.1 server on the loop, for probes and metrics: GET and HEAD, one request per connection.

RFC 9110 and 9112. A client that is slow or sends garbage, or one of a crowd, costs a descriptor for some seconds; other
clients are answered meanwhile.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agents.common.loop import NO_TIMER, READ, WRITE, Loop

TIMEOUT_S = 10.0
HEAD_MAX = 8192
CLIENTS_MAX = 64
ANY_PATH = "*"  # the route of all paths that have none of their own
HOLD_S = 290.0  # how long a client is held for a better response: less than the kubelet waits for a probe
_ACCEPT_AGAIN_S = 0.5
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"


class Response(NamedTuple):
    """A status code and a text."""

    code: int
    text: str
    content_type: str = "text/plain; charset=utf-8"
    may_change: bool = False  # hold the client until the route has another response


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address; with no host at all addresses of both families. Port 0 takes a free one. Raises OSError."""
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def respond(head: bytes, routes: Mapping[str, Callable[[], Response]]) -> Response:
    """Return the response to a request's head."""
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return Response(400, "this is not an HTTP/1 request\n")
    if words[0] not in (b"GET", b"HEAD"):
        return Response(405, "only GET and HEAD are supported\n")
    target = words[1].decode("ascii", "replace")
    route = routes.get(target) or routes.get(target.partition("?")[0]) or routes.get(ANY_PATH)
    return route() if route else Response(404, f"not found; the paths are {', '.join(routes)}\n")


def encode(head: bytes, response: Response) -> bytes:
    """Return a response as it is sent."""
    body = response.text.encode()
    allow = "Allow: GET, HEAD\r\n" if response.code == 405 else ""
    fields = (
        f"HTTP/1.1 {response.code} {_REASONS[response.code]}\r\nContent-Type: {response.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{allow}Connection: close\r\n\r\n"
    )
    return fields.encode() + (b"" if head.startswith(b"HEAD ") else body)


class HttpServer:
    """Serves `routes`, by path or by path and query, at a listening socket, which it owns.

    Of more than `clients_max` connections the oldest is closed.
    """

    def __init__(
        self,
        loop: Loop,
        listener: socket.socket,
        routes: Mapping[str, Callable[[], Response]],
        clients_max: int = CLIENTS_MAX,
    ) -> None:
        self._loop, self._socket, self._routes, self._clients_max = loop, listener, routes, clients_max
        self._clients: dict[_Client, None] = {}
        self._pause = NO_TIMER
        listener.setblocking(False)
        self._listen()

    @property
    def clients(self) -> int:
        """Connections that wait for their response."""
        return sum(not client.is_answered for client in self._clients)

    def close(self, *, is_last: bool = False) -> None:
        """Accept no more connections; those that are open get a response, unless the loop has ended (`is_last`)."""
        for client in list(self._clients) if is_last else ():
            client.close()
        self._pause.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
        for client in [one for one in self._clients if one.is_held]:
            client.answer(at_last=True)

    def changed(self) -> None:
        """Call the routes again for the clients that are held."""
        for client in [one for one in self._clients if one.is_held]:
            client.answer()

    def _listen(self) -> None:
        self._loop.add(self._socket.fileno(), READ, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors: try again later
            self._loop.remove(self._socket.fileno())
            self._pause = self._loop.call_later(_ACCEPT_AGAIN_S, self._listen)
            return
        connection.setblocking(False)
        if len(self._clients) >= self._clients_max:
            oldest = next(iter(self._clients))
            next((one for one in self._clients if not one.is_held), oldest).close()
        client = _Client(self._loop, connection, self._routes, self._clients)
        self._clients[client] = None


class _Client:
    """One connection: reads a request's head, writes the response."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        routes: Mapping[str, Callable[[], Response]],
        clients: dict[_Client, None],
    ) -> None:
        self._loop, self._socket, self._routes, self._clients = loop, connection, routes, clients
        self._seen = bytearray()
        self._left = memoryview(b"")
        self.is_answered = self.is_held = False
        self._timeout = loop.call_later(TIMEOUT_S, self.close)
        loop.add(connection.fileno(), READ, self._read)

    def close(self) -> None:
        """End the connection."""
        self._timeout.cancel()
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
        if self.is_held:  # data after the request is ignored; the end of the connection is not
            if not data:
                self.close()
            return
        self._seen += data
        if b"\r\n\r\n" not in self._seen and len(self._seen) <= HEAD_MAX:
            if not data:
                self.close()
            return
        self.answer()

    def answer(self, *, at_last: bool = False) -> None:
        """Answer the request, or hold the client if a better response may come and it need not be `at_last`."""
        head = bytes(self._seen)
        response = respond(head, self._routes)
        if response.may_change and not at_last:
            if not self.is_held:
                self.is_held = True
                self._timeout.cancel()
                self._timeout = self._loop.call_later(HOLD_S, lambda: self.answer(at_last=True))
            return
        if self.is_held:
            self.is_held = False
            self._timeout.cancel()
            self._timeout = self._loop.call_later(TIMEOUT_S, self.close)
        self._left = memoryview(encode(head, response))
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
        """End our side, then read what the client still sends: closing at once could cost the client its response."""
        self.is_answered = True
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._loop.remove(self._socket.fileno())
        self._loop.add(self._socket.fileno(), READ, self._discard)

    def _discard(self, _events: int) -> None:
        try:
            ended = not self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self.close()
