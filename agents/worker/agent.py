"""The worker agent: what looks, what listens and what answers, on one loop."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from agents.worker.folders import Folders
from agents.worker.http import Answer, HttpServer
from agents.worker.orders import Orders
from agents.worker.sshd import Sshd
from rshagent.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.worker.settings import Settings

DRAIN_S = 3.0
"""How long clients that have connected are waited for at the end."""


class ServeError(Exception):
    """A port or socket can't be served: one line."""


class Agent:
    """One worker pod's agent."""

    def __init__(self, settings: Settings) -> None:
        """Listen. Raises ServeError."""
        self._settings = settings
        self._loop = Loop()
        self._loop.on_error = _reported
        self._draining = False
        self._orders = Orders(settings.orders)
        self._sshd = Sshd(self._loop, settings.ports, settings.volume, say) if settings.ports else None
        self._servers = [HttpServer(self._loop, _listen(settings.http_port), self._routes())]
        self._folders = Folders(self._loop, [settings.keys, os.path.dirname(settings.orders)], self._changed, say)

    def run(self) -> None:
        """Work until SIGTERM or SIGINT."""
        self._loop.on_signals((signal.SIGTERM, signal.SIGINT), self._end)
        _say_if(self._orders.read())
        if self._sshd is not None:
            self._sshd.start()
        self._loop.run()

    def _routes(self) -> dict[str, Callable[[], Answer]]:
        return {"/healthz": lambda: Answer(200, "ok\n"), "/readyz": self._ready}

    def _ready(self) -> Answer:
        if self._draining:
            return Answer(503, "ending\n")
        debug = "debug: " if self._orders.is_debug else ""
        if self._sshd is None:
            return Answer(200, f"{debug}ready\n")
        return Answer(200 if self._sshd.keeper.is_ready else 503, f"{debug}{self._sshd.keeper.words()}\n")

    def _changed(self) -> None:
        _say_if(self._orders.read())

    def _end(self, number: int) -> None:
        if self._draining:
            self._loop.stop()
            return
        say(f"ending: {signal.Signals(number).name}")
        self._draining = True
        if self._sshd is not None:
            self._sshd.close()
        for server in self._servers:
            server.close()
        self._folders.close()
        self._loop.call_later(DRAIN_S, self._loop.stop)
        self._drain()

    def _drain(self) -> None:
        if any(server.clients for server in self._servers):
            self._loop.call_later(0.05, self._drain)
        else:
            self._loop.stop()


def say(line: str) -> None:
    """Say one line."""
    sys.stderr.write(f"mpi-worker: {line}\n")


def _say_if(line: str) -> None:
    if line:
        say(line)


def _listen(port: int) -> socket.socket:
    """Listen at all addresses of the pod: the kubelet asks at the pod's own."""
    has_ipv6 = socket.has_dualstack_ipv6()
    try:
        if has_ipv6:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise ServeError(f"port {port} can't be served: {error.strerror} (MPI_WORKER_PORT)") from None


def _reported(_call: object, error: Exception) -> None:
    """Keep a bug in one answer from ending the agent, and the pod's readiness with it."""
    import traceback  # noqa: PLC0415 (a megabyte that an agent without bugs does without)

    trace = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(trace[-1].filename)}:{trace[-1].lineno}" if trace else "?"
    say(f"internal error: {type(error).__name__} at {place}")
