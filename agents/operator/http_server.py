"""/healthz, /readyz and /metrics, for the kubelet and for Prometheus."""

from __future__ import annotations

import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Answer = tuple[int, str]


class HttpServer:
    """Answers from a thread of its own, by functions that return a status code and a text."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Callable[[], Answer]]) -> None:
        """Listen; port 0 takes a free one. Raises OSError."""
        self._server = _Server((host, port), _Handler)
        self._server.routes = routes
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    routes: Mapping[str, Callable[[], Answer]]

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        host, _ = address
        if ":" in host or (not host and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind, for all addresses of both families if none is given: the kubelet asks at the pod's own.

        HTTPServer's own would also ask DNS for our name.
        """
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, bool(self.server_address[0]))
        socketserver.TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    timeout = 10  # a peer that says nothing is let go
    server: _Server

    def do_GET(self) -> None:
        route = self.server.routes.get(self.path.partition("?")[0])
        code, text = route() if route else (404, "there are /healthz, /readyz and /metrics\n")
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
        """Say nothing: probes come every few seconds."""
