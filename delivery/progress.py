"""What is shown while delivery waits: one live line on a terminal, else one line a change and a sign of life.

Nothing here fails: a log that nobody reads any more must not end the wait.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

ALIVE_S = 30.0  # a wait without a change says so this often
GAP_S = 1.0  # lines of a quick succession of changes are at least this far apart
LIVE_S = 1.0  # the live line's durations go on this often


class Progress:
    """Writes to `stream`. `now` is in seconds of any one monotonic clock; `show` is to be called again by `next_s`."""

    def __init__(self, stream: TextIO, *, live: bool | None = None) -> None:
        self._stream = stream
        self._live = _is_terminal(stream) if live is None else live
        self._is_drawn = False
        self._key: tuple[object, ...] | None = None
        self._shown_at = float("-inf")

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"{self._erased()}{text}\n")

    def show(self, key: tuple[object, ...], text: str, now: float) -> None:
        """Show where the wait stands; texts with the same `key` differ in durations only."""
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

    def end(self) -> None:
        """Take the live line away."""
        self._write(self._erased())

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
