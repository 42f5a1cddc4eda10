"""Decodes JSON from the API server. An MPIJob may be nested 10,000 deep, and must not prevent others from being read.

Python's decoder fails at a depth of about a thousand, and a whole list with it. A decoded object takes about ten times
its size in bytes, so a list is decoded one object at a time. Pure.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from agents.job.json_object import Body

DEEPEST = 256  # of what is kept where something is nested too deeply; `agents.job` refuses templates at less

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_SPACE = re.compile(r"[ \t\n\r]*")
LEAST = 65536  # characters that are read at a time
_LONG = 65536  # bytes, from which on managedFields are worth leaving out
_FIELD = ("f:", "k:", "v:")  # how a field's name starts in managedFields


def decode(data: bytes, *, is_whole: bool = False) -> Any:
    """Return what the JSON says; if something in it is nested too deeply, null from there on. Raises ValueError.

    Unless it `is_whole`, of a long one without the fields in managedFields: of a large pod these are the most of it.
    """
    hook = _without_fields if len(data) > _LONG and not is_whole else None
    try:
        return json.loads(data, object_hook=hook)
    except RecursionError:
        return json.loads(_without_depths(data.decode()), object_hook=hook)


def decoded(data: bytes, *, is_whole: bool = False) -> Any:
    """Return what `decode` does, None if it is no JSON."""
    try:
        return decode(data, is_whole=is_whole)
    except ValueError:
        return None


def decode_list(chunks: Iterable[bytes], keep: Callable[[Any], Any]) -> Any:
    """Return a list's answer as `decode` does, and of each of its `items` what `keep` returns of it."""
    text = _Text(chunks)
    if text.mark() != "{":
        return text.value()
    found: Body = {}
    text.skip("{")
    while text.mark() != "}":
        if found:
            text.skip(",")
        name = text.value()
        text.skip(":")
        found[name] = text.values(keep) if name == "items" and text.mark() == "[" else text.value()
    text.skip("}")
    text.end()
    return found


def _without_fields(value: Body) -> Body | None:
    """Return an object, None for one that names fields: each as soon as it is read, from the innermost on."""
    for name, below in value.items():
        names_fields = name.startswith(_FIELD) or name == "."
        return None if names_fields and (below is None or isinstance(below, dict)) else value
    return value


_RAW = json.JSONDecoder(object_hook=_without_fields).raw_decode


class _Text:
    """JSON that comes in chunks: no more of it is held than the value at hand."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._decoder = iter(chunks), codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._is_whole = "", 0, False
        self._least = LEAST

    def mark(self) -> str:
        """Return the next character that is no space, "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text) or not self._read():
                return self._text[self._at : self._at + 1]

    def skip(self, mark: str) -> None:
        """Move past this character. Raises ValueError if another character is next."""
        if self.mark() != mark:
            raise json.JSONDecodeError(f"no {mark}", self._text[self._at : self._at + 20], 0)
        self._at += 1

    def value(self) -> Any:
        """Return the next value. Raises ValueError."""
        self.mark()
        while True:
            try:
                value, end = _RAW(self._text, self._at)
            except ValueError:
                if not self._read():
                    raise
                continue
            except RecursionError:
                end = self._end()
                value = json.loads(_without_depths(self._text[self._at : end]), object_hook=_without_fields)
            if end < len(self._text) or not self._read():  # of a number there may be more to come
                self._least, self._at = max(LEAST, end - self._at), end
                return value

    def values(self, keep: Callable[[Any], Any]) -> list[Any]:
        """Return what is kept of each of the next list's values."""
        kept: list[Any] = []
        self.skip("[")
        while self.mark() != "]":
            if kept:
                self.skip(",")
            kept.append(keep(self.value()))
        self.skip("]")
        return kept

    def end(self) -> None:
        """Read to the end. Raises ValueError if there is more than space."""
        if self.mark():
            raise json.JSONDecodeError("more than one value", self._text[self._at : self._at + 20], 0)

    def _read(self) -> bool:
        """Read on, as much as is there or as the last value had: a long one is not looked at for each chunk of it."""
        parts = [self._text[self._at :]]
        missing = max(self._least, len(parts[0]))
        self._text, self._at = "", 0
        while missing > 0 and not self._is_whole:
            chunk = next(self._chunks, None)
            self._is_whole = chunk is None
            parts.append(self._decoder.decode(chunk or b"", final=self._is_whole))
            missing -= len(parts[-1])
        self._text = "".join(parts)
        return len(self._text) > len(parts[0])

    def _end(self) -> int:
        """Return where the value ends that is nested too deeply."""
        while True:
            depth = 0
            for token in _TOKEN.finditer(self._text, self._at):
                depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
                if depth == 0:
                    return token.end()
            if not self._read():
                raise json.JSONDecodeError("no end", self._text[self._at : self._at + 20], 0)


def _without_depths(text: str) -> str:
    parts, depth, kept_to = [], 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == DEEPEST + 1:
                parts += [text[kept_to : token.start()], "null"]
        elif token[0] in "]}":
            if depth == DEEPEST + 1:
                kept_to = token.end()
            depth -= 1
    return "".join((*parts, text[kept_to:]))
