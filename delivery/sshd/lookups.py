"""Names to addresses by getaddrinfo, as ssh asks for them: /etc/hosts, search domains and all. It blocks, so threads.

They are daemons: one that waits for a DNS server which is down holds up nobody's end.
"""

from __future__ import annotations

import _socket
import os
import threading
from _queue import SimpleQueue
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from rshagent.loop import READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.loop import Loop

_THREADS = 16
_NO_NAME = frozenset({_socket.EAI_NONAME, -5, -9})  # -5 EAI_NODATA, -9 EAI_ADDRFAMILY: netdb.h, glibc and musl


class Address(NamedTuple):
    """Where to connect to; `rest`: what an IPv6 socket address has beside host and port."""

    family: int
    host: str
    rest: tuple[int, ...] = ()


class Found(NamedTuple):
    """What a look-up brought: addresses in ssh's order, or none, and why DNS could not be asked ("" where it was)."""

    addresses: tuple[Address, ...]
    trouble: str = ""


class Lookups:
    """Looks names up, many at once; the answers come on the loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._asked: SimpleQueue[tuple[str, Callable[[Found], None]] | None] = SimpleQueue()
        self._answers: deque[tuple[Callable[[Found], None], Found]] = deque()
        self._under_way = 0
        self._threads = 0
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        loop.add(self._bell, READ, self._take)

    def ask(self, name: str, on_done: Callable[[Found], None]) -> None:
        """Look a name up; `on_done(found)` is called from the loop."""
        self._under_way += 1
        if self._threads < min(self._under_way, _THREADS):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        self._asked.put((name, on_done))

    def close(self) -> None:
        """Take no more answers, and let the threads end: who stays waits anew each time the launcher begins again."""
        self._loop.remove(self._bell)
        for _ in range(self._threads):
            self._asked.put(None)

    def __del__(self) -> None:
        """Close what no thread can write to any more."""
        os.close(self._bell)

    def _take(self, _events: int) -> None:
        os.eventfd_read(self._bell)
        while self._answers:
            on_done, found = self._answers.popleft()
            self._under_way -= 1
            on_done(found)

    def _work(self) -> None:
        while asked := self._asked.get():
            name, on_done = asked
            self._answers.append((on_done, look_up(name)))
            os.eventfd_write(self._bell, 1)


def look_up(name: str) -> Found:
    """Return a name's addresses. Blocks."""
    try:
        # Bytes: for a string Python would import its codec for names that are not ASCII.
        found = _socket.getaddrinfo(name.encode(), None, _socket.AF_UNSPEC, _socket.SOCK_STREAM)
    except _socket.gaierror as error:
        return Found((), "" if error.errno in _NO_NAME else str(error.strerror))
    except (OSError, UnicodeError) as error:
        return Found((), str(error))
    places = (Address(family, str(at[0]), tuple(int(part) for part in at[2:])) for family, _, _, _, at in found)
    return Found(tuple(dict.fromkeys(places)))
