"""What a build says while it runs: one live line on a terminal, a line a step elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

_STEP = re.compile(r"Step (\d+/\d+) : (.*)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_KEPT = 20  # lines of a failed step that are shown


class Progress:
    """Shows the engine's events of one piece of work."""

    def __init__(self, name: str, out: TextIO) -> None:
        self._name, self._out = name, out
        self._is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._step = ""
        self._rest = ""
        self.lines: list[str] = []  # the last of the current step's output
        self.error = ""

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def event(self, event: Mapping[str, Any]) -> None:
        """Take one event of the engine's stream."""
        if "error" in event:
            self.error = str(event["error"]).strip()
        elif "stream" in event:
            self._stream(str(event["stream"]))
        elif "status" in event:
            layer = f"{event['id']}: " if event.get("id") else ""
            self._show(f"{layer}{event['status']} {event.get('progress', '')}".strip())

    def _stream(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            plain = _COLOUR.sub("", line).rstrip()
            step = _STEP.match(plain)
            if step:
                self._step, self.lines = f"{step[1]} {' '.join(step[2].split())}", []
                self._show_step(self._step)
            elif plain.strip():
                self.lines = [*self.lines, plain][-_KEPT:]
                self._show(plain)

    def _show_step(self, line: str) -> None:
        """Say what happens now: it stays, where lines do."""
        if self._is_live:
            self._show(line)
        else:
            print(f"{self._name} {line}", file=self._out, flush=True)

    def _show(self, detail: str) -> None:
        """Say what changes all the time: only in a live line."""
        if self._is_live:
            step = self._step.partition(" ")[0]
            text = " ".join(part for part in (self._name, step, f"{self.seconds:.0f} s", "·", detail) if part)
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{text[:width]}")
            self._out.flush()

    def done(self, line: str) -> None:
        """Say how it ended, in the live line's place."""
        self._out.write("\r\x1b[K" if self._is_live else "")
        print(line, file=self._out, flush=True)
