"""What the server has seen, for tests and the benchmark. It holds commands: they are never logged or printed."""

from __future__ import annotations

from typing import Any


class Counters:
    """Requests by kind, open and unacknowledged execs, commands."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.by_kind: dict[str, int] = {}  # "create pods" →
        self.sessions = 0  # exec streams that are open
        self.unacknowledged = 0  # execs from the request until the command's first byte on stderr, or its end
        self.peak_unacknowledged = 0
        self.running = 0  # commands that have started and not ended, with or without a stream
        self.errors = 0  # of the stand-in itself
        self.commands: list[dict[str, Any]] = []

    def count(self, kind: str, resource: str = "") -> None:
        """One more request."""
        self.requests[kind] = self.requests.get(kind, 0) + 1
        if resource:
            words = f"{kind} {resource}"
            self.by_kind[words] = self.by_kind.get(words, 0) + 1

    def opened(self) -> None:
        """An exec stream was asked for."""
        self.sessions += 1
        self.unacknowledged += 1
        self.peak_unacknowledged = max(self.peak_unacknowledged, self.unacknowledged)

    def report(self) -> dict[str, Any]:
        """Everything except the commands."""
        return {name: value for name, value in vars(self).items() if name != "commands"}

    def reset(self) -> None:
        """Start again; execs that are open now still count."""
        self.requests = {}
        self.by_kind = {}
        self.commands = []
        self.peak_unacknowledged = self.unacknowledged
