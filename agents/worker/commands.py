"""The command in the annotation mpi-agents/order, which the kubelet shows as a file of a downward API volume."""

from __future__ import annotations

RUN, DEBUG = "run", "debug"
_LENGTH_MAX = 64


class Commands:
    """Follows the command in the annotation; an unknown one is logged once and changes nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last = ""
        self.order = RUN

    @property
    def is_debug(self) -> bool:
        """Whether the command is debug: orphans are not terminated."""
        return self.order == DEBUG

    def read(self) -> str:
        """Read the file again; return the line to log, empty if nothing has changed."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                text = file.read(_LENGTH_MAX + 1)
        except OSError:
            text = ""  # no such volume: there is no command
        return self.take(text)

    def take(self, text: str) -> str:
        """Take the file's content; an annotation that isn't there makes an empty one."""
        command = text.strip() or RUN
        if command in (RUN, DEBUG):
            self._last = ""
            if command == self.order:
                return ""
            self.order = command
            return f"order: {command}"
        if command == self._last:
            return ""
        self._last = command
        return f"order {command[:_LENGTH_MAX]!a} is unknown: use {RUN} or {DEBUG}; it stays {self.order}"
