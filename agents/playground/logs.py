"""What a container has written, as `kubectl logs` asks for it."""

from __future__ import annotations

import asyncio
import io
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

_LOOK_S = 0.05
_PIECE = 65536


def tail(data: bytes, lines: int) -> bytes:
    """The last so many lines; all if it is negative."""
    if lines < 0:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""


def stamped(data: bytes, path: str) -> bytes:
    """Lines of a file with timestamps: all have that of the last one, as the file keeps no other."""
    if not data:
        return data
    at = datetime.fromtimestamp(os.stat(path).st_mtime, UTC).isoformat().replace("+00:00", "Z").encode()
    return b"".join(at + b" " + line for line in io.BytesIO(data))


async def follow(path: str, lines: int, is_over: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """A growing file's last lines and what comes, until `is_over` and all of it is read."""
    data = read(path)
    at = len(data)
    if last := tail(data, lines):
        yield last
    while True:
        over = is_over()  # before reading: what it wrote last is there by then
        while data := read(path, at, _PIECE):
            at += len(data)
            yield data
        if over:
            return
        await asyncio.sleep(_LOOK_S)


def read(path: str, at: int = 0, size: int = -1) -> bytes:
    """A part of a container's output; nothing if there is none yet."""
    try:
        with open(path, "rb") as file:
            file.seek(at, os.SEEK_SET)
            return file.read(size)
    except FileNotFoundError:
        return b""
