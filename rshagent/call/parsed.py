"""A parsed call of the agent, and what all parsers of its arguments share."""

from __future__ import annotations

from agents.common.text import shown
from rshagent.call.kubectl_get import Query

_NAME_MAX = 512


class UsageError(Exception):
    """A call that can't be understood; its text is one line for people."""


class Call:
    """One call of the agent, understood."""

    def __init__(self) -> None:
        self.host = ""
        self.namespace: str | None = None
        self.container: str | None = None
        self.text = b""
        """TEXT, byte for byte what `/bin/sh -c` is to run."""
        self.wants_stdin = True
        self.wants_terminal = False
        """None can be provided: whoever asks for one from a terminal gets a message."""
        self.ignored: list[str] = []
        """The words of the options that had no effect, as they were given."""
        self.query: Query | None = None
        """`kubectl get pods`: what is shown by who knows the pods. TEXT comes first, and may leave the shell."""


def text_of(word: bytes) -> str:
    """Return a word as text; bytes that are not UTF-8 come back with `os.fsencode`."""
    return word.decode("utf-8", "surrogateescape")


def name_of(word: bytes) -> str:
    """Return a word that is to name something. Raises UsageError for one that is longer than any name."""
    if len(word) > _NAME_MAX:
        raise UsageError(f"{shown(word)} is too long for a name")
    return text_of(word)
