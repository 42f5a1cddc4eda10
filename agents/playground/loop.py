"""The server's event loop: epoll and timers, one thread. Its own, so that it shares no bug with what it tests."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HANG_UP = select.EPOLLRDHUP


class Timer:
    """A call that is due later."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Never call it."""
        self.call = None


class Loop:
    """Calls a handler with the epoll mask when its file descriptor is ready."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._running = False
        self.on_error: Callable[[], None] | None = None  # called in the handler of an exception; None: it goes up

    def add(self, fd: int, mask: int, handler: Callable[[int], None]) -> None:
        """Watch a file descriptor."""
        self._handlers[fd] = handler
        self._epoll.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        """Watch for something else. With 0, only its end is told."""
        self._epoll.modify(fd, mask)

    def remove(self, fd: int) -> None:
        """Stop watching; before the file descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call once, after a while."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), timer))
        return timer

    def run(self) -> None:
        """Run until `stop`."""
        self._running = True
        while self._running:
            for fd, mask in self._epoll.poll(self._until_next_timer_s()):
                handler = self._handlers.get(fd)  # an earlier handler of this round may have removed it
                if handler is not None:
                    self._guarded(handler, mask)
            self._call_due()

    def stop(self) -> None:
        """Leave `run` after this round."""
        self._running = False

    def _until_next_timer_s(self) -> float | None:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _call_due(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            call = heapq.heappop(self._timers)[2].call
            if call is not None:
                self._guarded(call)

    def _guarded(self, call: Callable[..., None], *arguments: int) -> None:
        """One session's failure is not the server's."""
        try:
            call(*arguments)
        except Exception:
            if self.on_error is None:
                raise
            self.on_error()
