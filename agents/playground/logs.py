"""What a container has written, as `kubectl logs` asks for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import http1

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection
    from .loop import Loop

_LOOK_S = 0.05
_PIECE = 65536


def tail(data: bytes, lines: int) -> bytes:
    """The last so many lines."""
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""


class Follower:
    """Sends a growing file on one connection, until `is_over` and all is sent."""

    def __init__(self, loop: Loop, connection: Connection, path: str, is_over: Callable[[], bool]) -> None:
        self._loop = loop
        self._connection = connection
        self._path = path
        self._at = 0
        self._is_over = is_over

    def start(self, lines: int | None) -> None:
        """Answer the request; `lines` of what there is already (None: all)."""
        self._connection.write(http1.chunked_head("text/plain"))
        if lines is not None:
            data = read(self._path)
            self._at = len(data)
            if last := tail(data, lines):
                self._connection.write(http1.chunk(last))
        self._look()

    def _look(self) -> None:
        if not self._connection.open:
            return
        over = self._is_over()  # before reading: what it wrote last is there by then
        while data := read(self._path, self._at, _PIECE):
            self._at += len(data)
            self._connection.write(http1.chunk(data))
        if over:
            self._connection.write(http1.chunk(b""))
            self._connection.close()
        else:
            self._loop.call_later(_LOOK_S, self._look)


def read(path: str, at: int = 0, size: int = -1) -> bytes:
    """A part of a container's output; nothing if there is none yet."""
    try:
        with open(path, "rb") as file:
            file.seek(at, os.SEEK_SET)
            return file.read(size)
    except FileNotFoundError:
        return b""
