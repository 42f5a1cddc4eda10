"""The hub's metrics, and the endpoint that serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.http_server import ANY_PATH, METRICS, HttpServer, Response, listen
from agents.common.metrics import Histogram, Sample, lines, single
from rshagent.net.cluster import ConfigError
from rshagent.net.proxy import split_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Loop
    from rshagent.session.session import Session

_START_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CLIENTS_MAX = 16  # that wait for their response; their descriptors are needed for sessions
_RESULTS = ("ok", "exit", "failed", "client_died", "signalled")


class Metrics:
    """Counters over the hub's life."""

    def __init__(self) -> None:
        self._results = dict.fromkeys(_RESULTS, 0)
        self._starts = Histogram(_START_BUCKETS_S)
        self._sent = self._received = self._retries = 0

    def count(self, session: Session) -> None:
        """Count an ended session."""
        facts = session.facts
        self._results[result_of(session)] += 1
        self._sent += session.stdio.sent
        self._received += session.stdio.received
        self._retries += facts.retries
        if facts.acknowledged_at:
            self._starts.observe(facts.acknowledged_at - facts.created_at)

    def text(self, active: int) -> str:
        """Return all metrics; `active` is the number of sessions under way."""
        results = [Sample(count, {"result": result}) for result, count in self._results.items()]
        sizes = [Sample(self._sent, {"direction": "sent"}), Sample(self._received, {"direction": "received"})]
        meaning = "Bytes of stdin (sent) and of stdout and stderr (received)."
        start = "From the agent's call to the command's start."
        return "".join(
            [
                *lines("mpi_agents_hub_sessions_total", "counter", "Ended sessions by result.", results),
                *single("mpi_agents_hub_sessions_active", "gauge", "Sessions under way.", active),
                *lines("mpi_agents_hub_start_seconds", "histogram", start, self._starts.samples()),
                *lines("mpi_agents_hub_bytes_total", "counter", meaning, sizes),
                *single("mpi_agents_hub_retries_total", "counter", "Starts that were tried again.", self._retries),
            ]
        )


def result_of(session: Session) -> str:
    """Name how a session ended, in one of a few words."""
    facts = session.facts
    if facts.is_client_dead:
        return "client_died"
    if facts.signal is not None:
        return "signalled"
    if facts.reason and facts.code:
        return "failed"
    return "ok" if facts.code == 0 else "exit"


def serve(loop: Loop, address: str, text: Callable[[], str]) -> HttpServer:
    """Serve `text()` at an address, whatever the path. Raises ConfigError."""
    try:
        host, port = split_host(address, 0)
        if not port:
            raise ConfigError(f"the metrics' address {address} has no port")
        listener = listen(host, port)
    except (OSError, ValueError) as error:
        raise ConfigError(f"metrics can't be served at {address}: {error}") from None
    return HttpServer(loop, listener, {ANY_PATH: lambda: Response(200, text(), METRICS)}, CLIENTS_MAX)
