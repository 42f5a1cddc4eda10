"""/healthz, /readyz and /metrics, for the kubelet and for Prometheus, by the server that the in-pod agents have.

One thread answers all: a connection costs a descriptor for some seconds, and the oldest goes when there are too many.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping

from agents.common import http_server
from agents.common.loop import READ, Loop

Answer = tuple[int, str]

_LOG = logging.getLogger(__name__)


class HttpServer:
    """Answers from a thread of its own, by functions that return a status code and a text."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Callable[[], Answer]]) -> None:
        """Listen; port 0 takes a free one. Raises OSError."""
        listener = http_server.listen(host, port)
        self.port: int = listener.getsockname()[1]
        self._loop = Loop()
        self._loop.on_error = lambda _call, error: _LOG.error("a request can't be answered", exc_info=error)
        self._server = http_server.HttpServer(
            self._loop, listener, {path: _guarded(route) for path, route in routes.items()}
        )
        self._ended, self._end = socket.socketpair()
        self._loop.add(self._ended.fileno(), READ, lambda _events: self._loop.stop())
        self._thread = threading.Thread(target=self._loop.run, name="http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._end.close()
        self._thread.join()
        self._server.close(is_last=True)
        self._ended.close()


def _guarded(route: Callable[[], Answer]) -> Callable[[], http_server.Response]:
    def answer() -> http_server.Response:
        try:
            return http_server.Response(*route(), http_server.METRICS)
        except Exception:  # noqa: BLE001 (a bug: the caller gets 500, and later requests are answered)
            _LOG.exception("a request can't be answered")
            return http_server.Response(500, "internal error; see the operator's log\n")

    return answer
