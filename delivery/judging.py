"""Judges a wait as it runs: on changes and by the clock, tells where it stands, and ends the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delivery.exits import READY, DeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from delivery.progress import Progress
    from delivery.wait import Wait
    from rshagent.loop import Loop, Timer

# Changes that come together are judged together; that all are Ready is seen at once.
GATHER_S = 0.1
HELD_S = 2.0  # where all are ready and it is not over for so long, that is told


def count(workers: int) -> str:
    """Return `1 worker` or `8 workers`."""
    return "1 worker" if workers == 1 else f"{workers} workers"


class Judging:
    """Judges `wait`. The loop is stopped once all are ready, unless `holds()` is true; `aside(now)` is said as well."""

    def __init__(self, loop: Loop, wait: Wait, progress: Progress) -> None:
        self._loop, self._wait, self._progress = loop, wait, progress
        self._timer: Timer | None = None
        self._at = float("inf")
        self._held_since = float("inf")
        self.standing = "nothing is known of the workers yet"
        self.aside: Callable[[float], str] = _nothing
        self.holds: Callable[[], bool] = _never

    def within(self, seconds: float) -> None:
        """See to it that the wait is judged within so many seconds."""
        when = self._loop.now() + seconds
        if when >= self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at = when
        self._timer = self._loop.call_later(seconds, self._judge)

    def _judge(self) -> None:
        """Raises DeliveryError where the wait has failed."""
        self._at = float("inf")
        now = self._loop.now()
        verdict, aside = self._wait.judge(now), self.aside(now)
        self.standing = verdict.text + aside
        if verdict.exit_code == READY:
            if self.holds():
                self._hold(now)
            else:
                self._loop.stop()
            return
        self._held_since = float("inf")
        if verdict.exit_code is not None:
            raise DeliveryError(verdict.exit_code, self.standing)
        key = (*verdict.key, bool(aside))
        self._progress.show(key, self.standing, now)
        self.within(min(self._progress.next_s(key, now), verdict.check_in_s or float("inf")))

    def _hold(self, now: float) -> None:
        self._held_since = min(self._held_since, now)
        if now - self._held_since >= HELD_S:
            self._progress.show(("held",), f"{self.standing} · those that answered first are asked again", now)
        self.within(HELD_S)


def _never() -> bool:
    return False


def _nothing(_now: float) -> str:
    return ""
