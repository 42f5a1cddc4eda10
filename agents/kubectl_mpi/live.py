"""Lines on a terminal that are drawn again in their place: nothing is cleared first, so that nothing flickers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

_UP = "\x1b[{}A"
_END_OF_LINE, _BELOW = "\x1b[K", "\x1b[J"  # what they erase
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"  # a line that is too long is cut


class Live:
    """A screen that a command redraws. The last drawing stays when the command exits."""

    def __init__(self) -> None:
        self._drawn = 0  # lines

    def draw(self, lines: Sequence[str], *, is_last: bool = False) -> None:
        """Draw lines in the place of those before: as many as fit without scrolling, but all at last."""
        most = len(lines) if is_last else max(1, shutil.get_terminal_size().lines - 1)
        shown = [*lines] if len(lines) <= most else [*lines[: most - 1], f"… {len(lines) - most + 1} more lines"]
        up = _UP.format(self._drawn) if self._drawn else ""
        text = "".join(f"{line}{_END_OF_LINE}\n" for line in shown)
        sys.stdout.write(f"{up}{_NO_WRAP}{text}{_BELOW}{_WRAP}")
        sys.stdout.flush()
        self._drawn = len(shown)
