"""`rshagent-hub`: set up, serve, end. Exit codes: 0 ended as told, 1 check failed, 2 usage, 3 can't serve."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
from typing import TYPE_CHECKING

from agents.common.loop import Loop
from agents.common.text import printable
from rshagent.call import surroundings
from rshagent.hub import metrics
from rshagent.hub import settings as hub_settings
from rshagent.hub.connection import ClientConnection
from rshagent.hub.server import Hub
from rshagent.native import protocol
from rshagent.net.cluster import Cluster, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.hub.settings import Settings

EXIT_CHECK_FAILED, EXIT_USAGE, EXIT_CANNOT_SERVE = 1, 2, 3
_CHECK_S = 5.0


def main() -> int:
    """Run the hub, or check one."""
    surroundings.hide()  # first, and in the hooks and probes as well: their root has the token, too
    settings = hub_settings.parse(sys.argv[1:], os.environ)
    if settings.check:
        return tell(settings.socket, protocol.encode(protocol.CHECK))
    if settings.ending:
        grace_s = min(settings.grace, protocol.GRACE_MAX_S)
        return tell(settings.socket, protocol.encode(protocol.ENDING, grace_s.to_bytes(4, "big")))
    return run(settings)


def own() -> int:
    """`rshagent-direct`: be the hub that a client has started for its container; the environment has the settings."""
    socket_path = os.environ.pop("MPI_AGENT_SERVE", "")
    if not socket_path:
        sys.stderr.write("rshagent-direct: MPI_AGENT_SERVE is not set: this is called by the client, rshagent\n")
        return EXIT_USAGE
    settings = hub_settings.parse([], {**os.environ, "MPI_AGENT_SOCKET": socket_path})
    return run(settings._replace(is_own=True))


def run(settings: Settings) -> int:
    """Serve until SIGTERM; say why where that can't be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a session takes five
    environ = dict(os.environ)
    if settings.namespace:
        environ["MPI_AGENT_NAMESPACE"] = settings.namespace
    loop = Loop()
    try:
        hub = Hub(loop, Cluster.load(environ), settings, environ)
        loop.on_error = _Boundary(hub.log)
        if settings.metrics:
            metrics.serve(loop, settings.metrics, lambda: hub.metrics.text(len(hub.sessions)))
    except ConfigError as error:
        sys.stderr.write(f"rshagent-hub: {printable(str(error))}\n")
        return EXIT_CANNOT_SERVE
    loop.on_signals((signal.SIGTERM, signal.SIGINT), hub.end)
    hub.start(ClientConnection)
    if settings.is_own:
        served(settings.socket)
    loop.run()
    return 0


class _Boundary:
    """Keeps a bug in one session from ending the others: the session is abandoned, the bug goes to the log."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log

    def __call__(self, call: object, error: Exception) -> None:
        import traceback  # noqa: PLC0415 (a megabyte that a hub without bugs does without)

        trace = traceback.extract_tb(error.__traceback__)
        place = f"{os.path.basename(trace[-1].filename)}:{trace[-1].lineno}" if trace else "?"
        # Not the error's own text: it may hold what a session has sent.
        self._log(f"internal error: {type(error).__name__} at {place}; its session is abandoned")
        owner = getattr(getattr(call, "func", call), "__self__", None)  # of a method, or of a partial one
        abandon = getattr(owner, "abandon", None)
        if abandon is not None:
            abandon()


def tell(path: str, message: bytes) -> int:
    """Send the hub at `path` a message that it answers with OK; say why if it doesn't."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_CHECK_S)
        try:
            sock.connect(path)
            sock.sendall(message)
            inbox = protocol.Inbox()
            while (answer := inbox.next()) is None:
                data = sock.recv(4096)
                if not data:
                    raise OSError("it closed the connection")
                inbox.feed(data, [])
        except (OSError, protocol.ProtocolError) as error:
            sys.stderr.write(f"rshagent-hub: no hub answers at {path}: {error}\n")
            return EXIT_CHECK_FAILED
    if answer.kind == protocol.OK:
        return 0
    sys.stderr.write(f"rshagent-hub: {printable(answer.payload[4:].decode('utf-8', 'replace'))}\n")
    return EXIT_CHECK_FAILED


def served(path: str) -> None:
    """Tell the clients that the hub has started: in the file by which they agree on who starts it (client_hub.c)."""
    with contextlib.suppress(FileNotFoundError):
        os.truncate(os.path.join(os.path.dirname(path), "lock"), 0)
