"""One thread, one epoll: readiness, timers and signals become calls.

Nothing here blocks but `run`, and nothing here catches what a call raises: whoever registers a call owns its errors.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time
from collections.abc import Callable, Iterable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_WAIT_MAX_S = 86400.0
_TIMERS_MAX = 1024  # when more are pending, cancelled ones are removed


class Timer:
    """A call that is due unless it is cancelled before."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None] | None) -> None:
        self.call = call

    def cancel(self) -> None:
        """Forget the call; harmless after it ran."""
        self.call = None


NO_TIMER = Timer(None)  # of those who have set none yet


class Loop:
    """Waits for file descriptors, timers and signals, and calls whoever asked for them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = clock
        # Called with what a call raised, so that a bug in one session does not end all; None: the error ends the loop.
        self.on_error: Callable[[object, Exception], None] | None = None
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[int], None]] = {}
        # A heap: when each is due, in seconds of the clock, and its number, so that no two are equal.
        self._timers: list[tuple[float, int, Timer]] = []
        self._timers_max = _TIMERS_MAX
        self._order = 0
        self._running = False
        self._wakeup: tuple[int, int] | None = None
        # glibc's malloc sets its trim threshold by the largest block that was freed. Without this one it would return
        # the top of the heap to the kernel, and fault it in again, for each piece of a stream.
        bytes(1 << 20)

    def add(self, fd: int, mask: int, call: Callable[[int], None]) -> None:
        """Call `call(events)` while `fd` is ready for `mask`. Raises PermissionError for a regular file."""
        self._epoll.register(fd, mask)
        self._calls[fd] = call

    def modify(self, fd: int, mask: int) -> None:
        """Change what a registered `fd` is watched for; 0 leaves errors and hang-ups."""
        self._epoll.modify(fd, mask)

    def remove(self, fd: int) -> None:
        """Stop watching `fd`; to be called before it is closed. Harmless where it is not watched."""
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call `call()` once, `seconds` from now; 0: after the current events."""
        self._order += 1
        timer = Timer(call)
        if len(self._timers) >= self._timers_max:  # most were cancelled, by clients that came and went
            self._timers[:] = [one for one in self._timers if one[2].call is not None]
            heapq.heapify(self._timers)
            self._timers_max = max(_TIMERS_MAX, 2 * len(self._timers))
        heapq.heappush(self._timers, (self.now() + seconds, self._order, timer))
        return timer

    @property
    def pending(self) -> int:
        """How many calls are due later."""
        return sum(timer.call is not None for _, _, timer in self._timers)

    def on_signals(self, numbers: Iterable[int], call: Callable[[int], None]) -> None:
        """Call `call(number)` from the loop when one of the signals arrives."""
        if self._wakeup is None:
            self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        wanted = frozenset(numbers)
        for number in wanted:
            signal.signal(number, _ignore)

        def read(_events: int, fd: int = self._wakeup[0]) -> None:
            for number in os.read(fd, 4096):
                if number in wanted:
                    call(number)

        self.remove(self._wakeup[0])
        self.add(self._wakeup[0], READ, read)

    def run(self) -> None:
        """Run until `stop` is called."""
        self._running = True
        while self._running:
            ready = [(fd, events, self._calls.get(fd)) for fd, events in self._epoll.poll(self._timeout())]
            for fd, events, call in ready:
                # A call before this one in the same batch may have removed the descriptor, and another have its number.
                if call is not None and self._calls.get(fd) is call:
                    try:
                        call(events)
                    except Exception as error:  # noqa: BLE001 (the boundary)
                        self._report(call, error)
            self._run_due()

    def stop(self) -> None:
        """Let `run` return after the current events."""
        self._running = False

    def _timeout(self) -> float:
        timers = self._timers
        while timers and timers[0][2].call is None:
            heapq.heappop(timers)
        if not self._running:
            return 0.0
        # epoll takes up to 2^31 ms; for later ones the loop just wakes up in between.
        return min(max(0.0, timers[0][0] - self.now()), _WAIT_MAX_S) if timers else -1.0

    def _run_due(self) -> None:
        timers, now, last = self._timers, self.now(), self._order
        # Timers that these calls set wait for the next iteration: a call that sets itself again must not starve others.
        while timers and timers[0][0] <= now and timers[0][1] <= last:
            call = heapq.heappop(timers)[2].call
            if call is not None:
                try:
                    call()
                except Exception as error:  # noqa: BLE001 (the boundary)
                    self._report(call, error)

    def _report(self, call: object, error: Exception) -> None:
        if self.on_error is None:
            raise error
        self.on_error(call, error)


def _ignore(_number: int, _frame: object) -> None:
    """A Python handler must exist for the wake-up descriptor to be written."""
