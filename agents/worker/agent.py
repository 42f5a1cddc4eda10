"""The worker agent: what looks, what listens and what answers, on one loop."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from agents.worker import listeners, metrics, namespace
from agents.worker.folders import Folders
from agents.worker.http import JSON, METRICS, Answer, HttpServer
from agents.worker.listeners import ServeError
from agents.worker.listening import Listening
from agents.worker.orders import Orders
from agents.worker.rotation import Rotation
from agents.worker.sshd import Sshd
from rshagent.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.worker.settings import Settings
    from agents.worker.view import View

_FRESH_S = 1.0
"""How old a look at the processes may be to answer from it."""
DRAIN_S = 1.0
"""How long clients that have connected are waited for at the end."""
_DRAIN_STEP_S = 0.05
_SOCKET_AGAIN_S = 0.1  # the pod's hook takes no longer than a few of these


class Agent:
    """One worker pod's agent."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """Listen. Raises ServeError."""
        self._settings = settings
        self._loop = Loop()
        self._loop.on_error = _reported
        self._is_ending = False
        self._orders = Orders(settings.orders)
        self._view = self._new_view()
        self._routes = {"/healthz": lambda: Answer(200, "ok\n"), "/readyz": self._ready, "/metrics": self._metrics}
        self._servers = [HttpServer(self._loop, listeners.at_port(settings.http_port), self._routes)]
        self._sshd = self._rotation = None
        if settings.ports:
            self._sshd = Sshd(self._loop, settings, Listening(settings.http_port), self._view, say)
            self._sshd.answered = self._look_at_keys
            self._rotation = Rotation(settings.keys, settings.volume, environ, say)
        folders = [settings.keys, os.path.dirname(settings.orders)]
        self._folders = Folders(self._loop, folders, self._changed, say)

    def run(self) -> None:
        """Work until SIGTERM or SIGINT."""
        self._loop.on_signals((signal.SIGTERM, signal.SIGINT), self._end)
        self._take_order()
        self._serve_socket()
        if self._sshd is not None:
            self._sshd.look()
        if self._view is not None:
            self._view.look()
        self._loop.run()

    def _new_view(self) -> View | None:
        if not namespace.is_shared():
            return None
        from agents.worker.view import View  # noqa: PLC0415 (psutil takes 2 MiB)

        return View(self._loop, self._settings.grace_s, say, lambda: self._orders.is_debug)

    def _ready(self) -> Answer:
        is_ready, words = self._readiness()
        return Answer(200 if is_ready else 503, f"{'debug: ' if self._orders.is_debug else ''}{words}\n")

    def _readiness(self) -> tuple[bool, str]:
        if self._is_ending:
            return False, "ending"
        if self._sshd is None:
            return True, "ready"
        return self._sshd.keeper.is_ready, self._sshd.keeper.words()

    def _status(self) -> metrics.Status:
        seen = self._view.see(_FRESH_S) if self._view is not None else None
        cleaner = self._view.cleaner if self._view is not None else None
        return metrics.Status(
            is_ready=self._readiness()[0],
            is_debug=self._orders.is_debug,
            has_sshd=self._sshd is not None,
            sshd_losses=self._sshd.keeper.losses if self._sshd else 0,
            rotations=(self._rotation.done, self._rotation.failed) if self._rotation else (0, 0),
            processes=seen.processes if seen else None,
            leftovers=seen.leftovers if seen else (),
            leftovers_ended=cleaner.ended if cleaner else 0,
            leftovers_denied=cleaner.denied if cleaner else 0,
        )

    def _metrics(self) -> Answer:
        return Answer(200, metrics.text(self._status()), METRICS)

    def _processes(self) -> Answer:
        from agents.worker import report  # noqa: PLC0415 (json, for those who ask)

        return Answer(200, report.text(self._status(), self._readiness()[1]), JSON)

    def _changed(self) -> None:
        """Look at what a mounted folder may have brought."""
        self._take_order()
        self._look_at_keys()

    def _take_order(self) -> None:
        line = self._orders.read()
        if line:
            say(line)
            if self._view is not None:
                self._view.look()

    def _look_at_keys(self) -> None:
        if self._rotation is not None:
            self._rotation.look()

    def _serve_socket(self) -> None:
        """Serve the Unix socket as soon as its folder is there: the pod's hook makes it after our start."""
        path = self._settings.socket
        if not path or self._is_ending:
            return
        try:
            listener = listeners.at_path(path)
        except FileNotFoundError:
            self._loop.call_later(_SOCKET_AGAIN_S, self._serve_socket)
        except ServeError as error:
            say(f"goes on without its socket: {error}")
        else:
            routes = {**self._routes, "/processes": self._processes}
            self._servers.append(HttpServer(self._loop, listener, routes))

    def _end(self, number: int) -> None:
        if self._is_ending:
            self._loop.stop()
            return
        say(f"ending: {signal.Signals(number).name}")
        self._is_ending = True
        for part in (self._sshd, self._view, *self._servers, self._folders):
            if part is not None:
                part.close()
        if self._settings.socket:
            with contextlib.suppress(OSError):
                listeners.remove(self._settings.socket)
        self._loop.call_later(DRAIN_S, self._loop.stop)
        self._drain()

    def _drain(self) -> None:
        if any(server.clients for server in self._servers):
            self._loop.call_later(_DRAIN_STEP_S, self._drain)
        else:
            self._loop.stop()


def say(line: str) -> None:
    """Say one line."""
    sys.stderr.write(f"mpi-worker: {line}\n")


def _reported(_call: object, error: Exception) -> None:
    """Keep a bug in one answer from ending the agent, and the pod's readiness with it."""
    import traceback  # noqa: PLC0415 (a megabyte that an agent without bugs does without)

    trace = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(trace[-1].filename)}:{trace[-1].lineno}" if trace else "?"
    say(f"internal error: {type(error).__name__} at {place}")
