"""How long to go on without an answer: jobs run on without the API server, so whoever waits for one does too."""

from __future__ import annotations

import time
from collections.abc import Callable

from agents.client.errors import AccessError

_LONGEST_S = 120.0
_PAUSE_S = 1.0


class Outage:
    """Tolerates failed requests, until they have failed for two minutes. `report` gets a line for a new failure."""

    def __init__(self, report: Callable[[str], None] = lambda _line: None) -> None:
        self._report = report
        self._since: float | None = None

    def failed(self, error: AccessError, *, most_s: float = _PAUSE_S) -> None:
        """Pause for a second, or `most_s`. Raises the error if nothing is to be hoped for any more."""
        now = time.monotonic()
        self._since = self._since or now
        if error.code == 401 or now - self._since > _LONGEST_S:
            raise error
        self._report(f"{error}; trying again")
        time.sleep(max(0.0, min(_PAUSE_S, most_s)))

    def ended(self) -> None:
        """A request was answered."""
        self._since = None
