"""Runs a wait: evaluates it on changes and by the clock, and shows its progress.

On a terminal progress is one live line, else a line for each change and one now and then. Writing it never fails: a
closed stderr must not end the wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from agents.common.loop import NO_TIMER, Loop
from agents.common.text import printable
from delivery.exits import READY, DeliveryError
from delivery.wait import Wait

# Changes within this time are evaluated together, but readiness of all ends the wait immediately.
GATHER_S = 0.1
LOOK_S = 1.0  # a look at the hostfile is one stat(2)
HELD_S = 2.0  # if all are ready and the wait continues for longer, a line says why


def count(workers: int) -> str:
    """Return `1 worker` or `8 workers`."""
    return "1 worker" if workers == 1 else f"{workers} workers"


class WaitLoop:
    """Evaluates `wait` on changes and by the clock, and shows its progress.

    `standing` is one line that says where the wait is. `aside(now)` is appended to its lines. While all are
    ready and `holds()` is true, the wait continues.
    """

    def __init__(
        self,
        loop: Loop,
        wait: Wait,
        progress: Progress,
        *,
        aside: Callable[[float], str] = lambda _now: "",
        holds: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loop, self._wait, self._progress = loop, wait, progress
        self._aside, self._holds = aside, holds
        self._timer = NO_TIMER
        self._at = float("inf")
        self._held_since = float("inf")
        self.standing = "no state of the workers is known yet"

    def run(self, changed: Callable[[], list[str] | None], follow: Callable[[list[str]], None]) -> None:
        """Wait until all are ready. Raises DeliveryError if the wait fails.

        An operator that changes the number of workers changes the hostfile: `changed()` returns the hosts that are
        wanted from now on, None while they are the same, and `follow(hosts)` takes them.
        """

        def look() -> None:
            self._loop.call_later(LOOK_S, look)
            hosts = changed()
            if hosts is not None:
                follow(hosts)
                self._progress.line(f"the hostfile has changed: waiting for {count(self._wait.total)}")
                self.within(GATHER_S)

        self.within(GATHER_S)
        self._loop.call_later(LOOK_S, look)
        self._loop.run()
        self._progress.line(self.standing)

    def within(self, seconds: float) -> None:
        """Evaluate the wait within so many seconds."""
        when = self._loop.now() + seconds
        if when >= self._at:
            return
        self._timer.cancel()
        self._at = when
        self._timer = self._loop.call_later(seconds, self._evaluate)

    def _evaluate(self) -> None:
        """Raises DeliveryError if the wait has failed."""
        self._at = float("inf")
        now = self._loop.now()
        verdict, aside = self._wait.evaluate(now), self._aside(now)
        self.standing = verdict.text + aside
        if verdict.exit_code == READY:
            if self._holds():
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
            self._progress.show(("held",), f"{self.standing} · probing those that answered first again", now)
        self.within(HELD_S)


ALIVE_S = 30.0  # without a change the line is repeated this often
GAP_S = 1.0  # shortest time between two lines
LIVE_S = 1.0  # how often the live line's durations are updated


class Progress:
    """Writes to `stream`. `now` is in seconds of any one monotonic clock; call `show` again after `next_s`."""

    def __init__(self, stream: TextIO, *, live: bool | None = None) -> None:
        self._stream = stream
        self._live = _is_terminal(stream) if live is None else live
        self._is_drawn = False
        self._key: tuple[object, ...] | None = None
        self._shown_at = float("-inf")

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"{self._erased()}{printable(text)}\n")

    def show(self, key: tuple[object, ...], text: str, now: float) -> None:
        """Show where the wait is; texts with the same `key` differ in durations only."""
        text = printable(text)
        if self._live:
            self._draw(text)
            return
        since_s = now - self._shown_at
        changed = key != self._key
        if since_s >= (GAP_S if changed else ALIVE_S):
            self._key, self._shown_at = key, now
            self._write(f"{text}\n")

    def next_s(self, key: tuple[object, ...], now: float) -> float:
        """Return after how many seconds `show` may have something new to say for the same `key`."""
        if self._live:
            return LIVE_S
        return max(0.0, self._shown_at + (GAP_S if key != self._key else ALIVE_S) - now)

    def _draw(self, text: str) -> None:
        columns = _columns(self._stream)
        cut = text if len(text) < columns else text[: max(1, columns - 2)] + "…"
        self._write(f"{self._erased()}{cut}")
        self._is_drawn = True

    def _erased(self) -> str:
        drawn, self._is_drawn = self._is_drawn, False
        return "\r\x1b[K" if drawn else ""

    def _write(self, text: str) -> None:
        if not text:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
    except ValueError:
        return False


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
