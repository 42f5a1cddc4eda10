"""Real pipes, sockets and terminals with both their ends, for what borrows one of them."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import tty
from typing import TYPE_CHECKING

import pytest

from rshagent.net import fds

if TYPE_CHECKING:
    from collections.abc import Iterator


class Channel:
    """What we write to or read from (`ours`), and its other end (`theirs`), which a test may close."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        if kind == "socket":
            ours, theirs = socket.socketpair()
            self.ours, self.theirs = ours.detach(), theirs.detach()
        elif kind in ("terminal", "raw terminal"):
            self.theirs, self.ours = os.openpty()
            if kind == "raw terminal":
                tty.setraw(self.ours)
        else:
            self.theirs, self.ours = os.pipe()

    def reading(self) -> Channel:
        """Turn a pipe round: ours is the end that reads."""
        if self.kind == "pipe":
            self.ours, self.theirs = self.theirs, self.ours
        return self

    def hang_up(self) -> None:
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def close(self) -> None:
        self.hang_up()
        with contextlib.suppress(OSError):  # a Writer or Reader may own it
            os.close(self.ours)


@pytest.fixture(params=["pipe", "socket", "raw terminal"])
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    channel = Channel(request.param)
    yield channel
    channel.close()


def is_open(fd: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{fd}")


def is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def take(fd: int) -> bytes:
    """Return what has come."""
    data = b""
    with contextlib.suppress(OSError):  # a terminal that was closed
        while is_readable(fd) and (more := os.read(fd, 65536)):
            data += more
    return data


def fill(fd: int, kind: str, pattern: bytes = b"x") -> int:
    """Write until there is no room; return how much that was."""
    total = 0
    while written := fds.write_some(fd, kind, memoryview(pattern * 5000)):
        total += written
    return total
