"""What the pod's annotation mpi-agents/order asks for. Pure but for reading the file."""

from __future__ import annotations

RUN, DEBUG = "run", "debug"
_LENGTH_MAX = 64


class Orders:
    """Follows the order; words that are none are told once, and change nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last = ""
        self.order = RUN

    @property
    def is_debug(self) -> bool:
        """Whether a person works in this pod by hand."""
        return self.order == DEBUG

    def read(self) -> str:
        """Read the file again; return the line to be said, empty if nothing has changed."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                text = file.read(_LENGTH_MAX + 1)
        except OSError:
            text = ""  # no such volume: nobody has asked for anything
        return self.take(text)

    def take(self, text: str) -> str:
        """Take the file's content; an annotation that isn't there makes an empty one."""
        word = text.strip() or RUN
        if word in (RUN, DEBUG):
            self._last = ""
            if word == self.order:
                return ""
            self.order = word
            return f"order: {word}"
        if word == self._last:
            return ""
        self._last = word
        return f"order {word[:_LENGTH_MAX]!a} is not known: there are {RUN} and {DEBUG}; it stays {self.order}"
