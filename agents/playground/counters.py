"""What the server has seen, for tests and the benchmark."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Counters:
    """Requests by kind, open and unacknowledged execs."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.sessions = 0  # exec streams that are open
        self.unacknowledged = 0  # execs from the request until the command's first byte on stderr, or its end
        self.peak_unacknowledged = 0
        self.running = 0  # commands that have started and not ended, with or without a stream
        self.errors = 0  # of the stand-in itself

    def opened(self) -> None:
        """An exec stream was asked for."""
        self.sessions += 1
        self.unacknowledged += 1
        self.peak_unacknowledged = max(self.peak_unacknowledged, self.unacknowledged)

    def report(self) -> dict[str, Any]:
        """All of them."""
        return dict(vars(self))

    def reset(self) -> None:
        """Start again; execs that are open now still count."""
        self.requests.clear()
        self.peak_unacknowledged = self.unacknowledged
