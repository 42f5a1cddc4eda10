"""The worker agent: what watches, what listens and what answers, on one loop."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agents.common.http_server import JSON, METRICS, HttpServer, Response, listen
from agents.common.loop import Loop
from agents.common.text import printable
from agents.worker import report
from agents.worker.mounted import Commands, FolderWatch
from agents.worker.settings import Settings
from agents.worker.sock_diag import SockDiag
from agents.worker.sshd_monitor import SshdMonitor
from sshd_bootstrap import paths
from sshd_bootstrap.rotation import KeyRotation

if TYPE_CHECKING:  # psutil takes 2 MiB, which only a shared process namespace needs
    from agents.worker.process_view import ProcessView


def is_shared() -> bool:
    """Whether the pod shares its process namespace: its first process is another container's, and no ancestor of ours.

    In a namespace of our own we are its first process, or descend from it. In the node's (hostPID) we descend from its
    first process as well, through the runtime; the processes there are not the pod's alone.
    """
    pid = os.getpid()
    for _ in range(64):
        if pid == 1:
            return False
        pid = _parent(pid)
        if pid <= 0:
            return True
    return False


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 1  # unknown: treated as not shared, so nothing is touched


class ServeError(Exception):
    """A port or a socket can't be served; the text is one line for people."""


def at_port(port: int) -> socket.socket:
    """Listen at all addresses of the pod: the kubelet probes the pod's own. Raises ServeError."""
    try:
        return listen("", port)
    except OSError as error:
        raise ServeError(f"port {port} can't be served: {os.strerror(error.errno or 0)} (MPI_WORKER_PORT)") from None


def at_path(path: str) -> socket.socket:
    """Listen at a Unix socket that every uid of the pod may connect to, replacing one that an earlier agent left.

    Raises FileNotFoundError where its folder is not there yet, else ServeError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove(path)
        listener.bind(path)
        os.chmod(path, 0o666)  # noqa: S103 (the port serves nearly the same)
        listener.listen()
    except FileNotFoundError:
        listener.close()
        raise
    except OSError as error:
        listener.close()
        raise ServeError(f"the socket {path} can't be served: {error.strerror or error} (MPI_WORKER_SOCKET)") from None
    return listener


def remove(path: str) -> None:
    """Remove a socket; other files stay."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


_FRESH_S = 1.0
"""How old a scan of the processes may be to answer from it."""
DRAIN_S = 1.0
"""How long to wait at shutdown for clients that have connected."""
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
        self._commands = Commands(settings.commands)
        self._view = self._new_view()
        self._routes = {
            "/healthz": lambda: Response(200, "ok\n"),
            "/readyz": self._ready,
            "/readyz?wait": lambda: self._ready()._replace(may_change=self._is_starting()),
            "/metrics": lambda: Response(200, report.metrics(self._status()), METRICS),
        }
        self._servers = [HttpServer(self._loop, at_port(settings.http_port), self._routes)]
        self._sshd = self._rotation = None
        if settings.ports:
            self._sshd = SshdMonitor(self._loop, settings, SockDiag(settings.http_port), self._view, say)
            self._sshd.answered = self._look_at_keys
            self._sshd.changed = self._tell_clients
            # The host key is written last: a preparation that was interrupted, as by a full volume, is repeated.
            in_use = os.path.join(settings.volume, paths.RUN_FOLDER, paths.HOST_KEY)
            self._rotation = KeyRotation(settings.keys, in_use, lambda: _prepare_ssh(environ), say)
        folders = [settings.keys, os.path.dirname(settings.commands)]
        self._folders = FolderWatch(self._loop, folders, self._changed, say)

    def run(self) -> None:
        """Work until SIGTERM or SIGINT."""
        self._loop.on_signals((signal.SIGTERM, signal.SIGINT), self._end)
        self._read_command()
        self._serve_socket()
        if self._sshd is not None:
            self._sshd.look()
        if self._view is not None:
            self._view.look()
        self._loop.run()

    def _new_view(self) -> ProcessView | None:
        if not is_shared():
            return None
        from agents.worker.process_view import ProcessView  # noqa: PLC0415 (psutil takes 2 MiB)

        return ProcessView(self._loop, self._settings.grace_s, say, lambda: self._commands.is_debug)

    def _ready(self) -> Response:
        is_ready, message = self._readiness()
        return Response(200 if is_ready else 503, f"{'debug: ' if self._commands.is_debug else ''}{message}\n")

    def _is_starting(self) -> bool:
        """Whether sshd is starting: the kubelet would create an Event for each failed probe of a healthy pod."""
        return self._sshd is not None and self._sshd.state.is_starting and not self._is_ending

    def _tell_clients(self) -> None:
        for server in self._servers:
            server.changed()

    def _readiness(self) -> tuple[bool, str]:
        if self._is_ending:
            return False, "ending"
        if self._sshd is None:
            return True, "ready"
        return self._sshd.state.is_ready, self._sshd.state.message()

    def _status(self) -> report.Status:
        seen = self._view.see(_FRESH_S) if self._view is not None else None
        cleaner = self._view.cleaner if self._view is not None else None
        return report.Status(
            is_ready=self._readiness()[0],
            is_debug=self._commands.is_debug,
            has_sshd=self._sshd is not None,
            sshd_losses=self._sshd.state.losses if self._sshd else 0,
            rotations=(self._rotation.done, self._rotation.failed) if self._rotation else (0, 0),
            processes=seen.processes if seen else None,
            orphans=seen.orphans if seen else (),
            orphans_ended=cleaner.ended if cleaner else 0,
            orphans_denied=cleaner.denied if cleaner else 0,
        )

    def _processes(self) -> Response:
        return Response(200, report.process_view(self._status(), self._readiness()[1]), JSON)

    def _changed(self) -> None:
        """Read the mounted folders again."""
        self._read_command()
        self._look_at_keys()

    def _read_command(self) -> None:
        line = self._commands.read()
        if line:
            say(line)
            if self._view is not None:
                self._view.look()

    def _look_at_keys(self) -> None:
        if self._rotation is not None:
            self._rotation.look()

    def _serve_socket(self) -> None:
        """Serve the Unix socket as soon as its folder is there: the postStart hook creates it after our start."""
        path = self._settings.socket
        if not path or self._is_ending:
            return
        try:
            listener = at_path(path)
        except FileNotFoundError:
            self._loop.call_later(_SOCKET_AGAIN_S, self._serve_socket)
        except ServeError as error:
            say(f"continuing without the socket: {error}")
        else:
            routes = {**self._routes, "/processes": self._processes}
            self._servers.append(HttpServer(self._loop, listener, routes))

    def _end(self, number: int) -> None:
        if self._is_ending:
            self._loop.stop()
            return
        say(f"shutting down: {signal.Signals(number).name}")
        self._is_ending = True
        for part in (self._sshd, self._view, *self._servers, self._folders):
            if part is not None:
                part.close()
        if self._settings.socket:
            with contextlib.suppress(OSError):
                remove(self._settings.socket)
        self._loop.call_later(DRAIN_S, self._loop.stop)
        self._drain()

    def _drain(self) -> None:
        if any(server.clients for server in self._servers):
            self._loop.call_later(_DRAIN_STEP_S, self._drain)
        else:
            self._loop.stop()


def _prepare_ssh(environ: Mapping[str, str]) -> None:
    """Write the Secret's present keys. Raises BootstrapError."""
    # Imported here: a megabyte that the agent of a pod without new keys does without.
    from sshd_bootstrap.prepare import prepare  # noqa: PLC0415
    from sshd_bootstrap.settings import Settings as SshSettings  # noqa: PLC0415

    prepare(SshSettings.load(environ))


def say(line: str) -> None:
    """Log one line."""
    sys.stderr.write(f"mpi-worker: {printable(line)}\n")


def _reported(_call: object, error: Exception) -> None:
    """Keep a bug in one response from ending the agent, and the pod's readiness with it."""
    import traceback  # noqa: PLC0415 (a megabyte that an agent without bugs does without)

    trace = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(trace[-1].filename)}:{trace[-1].lineno}" if trace else "?"
    say(f"internal error: {type(error).__name__} at {place}")
