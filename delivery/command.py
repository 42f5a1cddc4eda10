"""What the two commands share: a signal ends them, and their last line is the container's termination message too."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from agents.common import termination
from agents.common.text import printable
from delivery.exits import READY, DeliveryError, StoppedBySignal
from delivery.wait_loop import Progress, WaitLoop
from rshagent.call import surroundings

if TYPE_CHECKING:
    from collections.abc import Callable


class Command:
    """One run of a command called `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.progress = Progress(sys.stderr)
        self.waiting: WaitLoop | None = None

    def run(self, work: Callable[[], None]) -> int:
        """Return the exit code."""
        try:
            work()
        except DeliveryError as error:
            self._end(str(error))
            return error.exit_code
        except StoppedBySignal as stopped:
            standing = f" while waiting: {self.waiting.standing}" if self.waiting else ""
            self._end(f"stopped by {signal.Signals(stopped.number).name}{standing}")
            raise
        return READY

    def _end(self, text: str) -> None:
        text = printable(text)
        self.progress.line(f"{self._name}: {text}")
        termination.leave(text, os.environ)


def set_up() -> None:
    """Prepare the process: nobody looks into it, and a signal raises StoppedBySignal."""
    surroundings.hide()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)


def _stop(number: int, _frame: object) -> None:
    raise StoppedBySignal(number)
