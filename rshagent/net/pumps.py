"""Borrowed descriptors on the loop: a Reader and a Writer that never wait for theirs (`fds`)."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

from agents.common.loop import NO_TIMER
from rshagent.net.fds import FILE, NONE, TERMINAL, held, kind_of, own_terminal, polls, read_some, write_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Loop

_EMPTY_MAX = 16  # times in a row that a descriptor may be called ready and then give or take nothing
_LATER_S = 0.2


class Writer:
    """Writes to a borrowed descriptor in order, keeping what does not fit until it does.

    `on_drained` is called when a backlog is gone, `on_broken` once when nobody reads any more.
    """

    __slots__ = (
        "_backlog", "_empty", "_fd", "_kind", "_loop", "_on_broken", "_on_drained", "_timer", "is_behind", "is_broken",
    )  # fmt: skip

    def __init__(self, loop: Loop, fd: int, on_drained: Callable[[], None], on_broken: Callable[[], None]) -> None:
        self._loop, self._fd, self._kind = loop, fd, kind_of(fd)
        self._on_drained, self._on_broken = on_drained, on_broken
        self._backlog = bytearray()
        self.is_behind = False  # we wait for the reader
        self._empty = 0  # times in a row that it was called writable and took nothing
        self._timer = NO_TIMER
        self.is_broken = False
        if self._kind == TERMINAL:
            own_terminal(fd)

    def write(self, data: memoryview) -> None:
        """Write `data`, or keep (a copy of) what does not fit now."""
        if self._fd < 0:
            return
        if not self.is_behind:
            data = data[self._write(data) :]
            # With much kept already, the next piece is not even taken in before there is room for some of it.
            is_full = bool(data) or (held.is_high and self._kind != FILE and not polls(self._fd, select.POLLOUT))
            if self._fd < 0 or not is_full or not self._wait():
                return
        self._backlog += data
        held.total += len(data)

    def close(self) -> None:
        """Drop the backlog and the descriptor."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._timer.cancel()
            self._loop.remove(fd)
            os.close(fd)
            held.total -= len(self._backlog)
            self._backlog = bytearray()  # not cleared: it may be viewed just now
            self.is_behind = False

    def _write(self, data: memoryview) -> int:
        try:
            return write_some(self._fd, self._kind, data)
        except OSError:
            self._break()
            return len(data)

    def _wait(self) -> bool:
        """Wait for room; False where that can't be: a regular file that took less than all, as its disk is full."""
        try:
            self._loop.add(self._fd, select.EPOLLOUT, self._resume)
        except OSError:
            self._break()
            return False
        self.is_behind = True
        return True

    def _resume(self, _events: int) -> None:
        with memoryview(self._backlog) as view:
            written = self._write(view)
        if self._fd < 0:
            return
        self._empty = 0 if written or not polls(self._fd, select.POLLOUT) else self._empty + 1
        del self._backlog[:written]
        held.total -= written
        if not self._backlog:
            self._loop.remove(self._fd)
            self.is_behind = False
            self._on_drained()
        elif self._empty >= _EMPTY_MAX:
            self._loop.remove(self._fd)
            self._timer = self._loop.call_later(_LATER_S, self._wait_again)

    def _wait_again(self) -> None:
        self._wait()

    def _break(self) -> None:
        self.is_broken = True
        self.close()
        self._loop.call_later(0, self._on_broken)


class Reader:
    """Reads a borrowed descriptor as fast as its consumer wants, and not at all while it is paused.

    `on_data(bytes)` gets what came; b"" once at the end (or where reading failed).
    """

    __slots__ = ("_active", "_empty", "_fd", "_kind", "_loop", "_on_data", "_timer")

    def __init__(self, loop: Loop, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._loop, self._fd, self._on_data = loop, fd, on_data
        self._kind = kind_of(fd)
        self._active = False
        self._empty = 0  # times in a row that it was called readable and gave nothing
        self._timer = NO_TIMER
        if self._kind == TERMINAL:
            own_terminal(fd)

    def resume(self) -> None:
        """Start or continue reading."""
        if self._fd >= 0 and not self._active:
            self._active = True
            self._wait()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if self._active:
            self._active = False
            self._timer.cancel()
            self._loop.remove(self._fd)

    def close(self) -> None:
        """Drop the descriptor; nothing is called after this."""
        if self._fd >= 0:
            self.pause()
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _wait(self) -> None:
        if self._kind not in (FILE, NONE):
            try:
                self._loop.add(self._fd, select.EPOLLIN, self._read)
            except PermissionError:  # a device that is always ready
                self._kind = FILE
            except OSError:  # O_PATH; or this user may wait for no more
                self._kind = NONE
        if self._kind in (FILE, NONE):  # epoll refuses what is always ready
            self._timer = self._loop.call_later(0, self._read_file)

    def _read_file(self) -> None:
        self._timer = self._loop.call_later(0, self._read_file)
        self._read(0)

    def _read(self, _events: int) -> None:
        try:
            data = read_some(self._fd, self._kind)
        except OSError:
            data = b""
        if data is None:
            # Who shares a stream finds it empty at times, but then it is not called readable any more.
            self._empty = self._empty + 1 if polls(self._fd, select.POLLIN) else 0
            if self._empty >= _EMPTY_MAX:  # a socket that was shut down, say, is ready for ever
                self._loop.remove(self._fd)
                self._timer = self._loop.call_later(_LATER_S, self._wait)
            return
        self._empty = 0
        if not data:
            self.close()
        self._on_data(data)
