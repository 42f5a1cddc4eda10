"""Tolerates API outages: jobs run on without the API server, so a command that waits for a job does, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from agents.client.errors import AccessError

_T = TypeVar("_T")

_LONGEST_S = 120.0
_PAUSE_S = 1.0


class Outage:
    """Tolerates failed requests, until they have failed for two minutes. `report` gets a line for a new failure."""

    def __init__(self, report: Callable[[str], None] = lambda _line: None) -> None:
        self._report = report
        self._since: float | None = None

    def answer(self, ask: Callable[[], _T]) -> _T:
        """Ask until there is an answer, and return it. Raises AccessError if there is none for too long."""
        while True:
            try:
                found = ask()
            except AccessError as error:
                self.failed(error)
            else:
                self._since = None
                return found

    def failed(self, error: AccessError) -> None:
        """Pause for a second. Raises the error if the outage has lasted too long, or the credentials are refused."""
        now = time.monotonic()
        self._since = self._since or now
        if error.code == 401 or now - self._since > _LONGEST_S:
            raise error
        self._report(f"{error}; trying again")
        time.sleep(_PAUSE_S)
