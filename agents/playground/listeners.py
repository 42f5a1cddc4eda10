"""Who is told what becomes of a container's process, or of a command beside it (processes.Listener)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .statuses import runtime_error

if TYPE_CHECKING:
    from collections.abc import Callable

_START_ERROR = 128  # containerd's exit code of a container whose program can't be started


class Main:
    """A container's own process. `ended` takes exit code, reason and message."""

    def __init__(self, began: Callable[[int], None], ended: Callable[[int, str, str], None], name: str) -> None:
        self._began = began
        self._ended = ended
        self._name = name

    def started(self, pid: int) -> None:
        """It runs."""
        self._began(pid)

    def failed(self, error: int) -> None:
        """It can't be started."""
        words = f"failed to create containerd task: {runtime_error(self._name, error)}"
        self._ended(_START_ERROR, "StartError", words)

    def exited(self, code: int) -> None:
        """It ended."""
        self._ended(code, "", "")


class Command:
    """A probe's or a hook's: whether it ended with 0 is wanted."""

    def __init__(self, then: Callable[[bool], None]) -> None:
        self._then = then

    def started(self, pid: int) -> None:
        """It runs."""

    def failed(self, _error: int) -> None:
        """It can't be started."""
        self._then(False)

    def exited(self, code: int) -> None:
        """It ended."""
        self._then(code == 0)
