"""Asks the cluster's DNS whether names are there yet, before anybody asks for their addresses."""

from __future__ import annotations

import _socket
from contextlib import suppress
from typing import TYPE_CHECKING

from delivery.sshd import dns
from rshagent.loop import READ

if TYPE_CHECKING:
    from typing import Protocol

    from rshagent.loop import Loop, Timer

    class Heard(Protocol):
        """What is called with the answer; without one in time, the name may be there."""

        def __call__(self, *, may_be_there: bool) -> None:
            """Take it."""


_PATIENCE_S = 0.3  # then the name's address is asked for all the same
_PORT = 53
_LARGEST = 4096


class Presence:
    """One socket for all questions."""

    def __init__(self, loop: Loop, resolver: dns.Resolver) -> None:
        self._loop, self._resolver = loop, resolver
        self._asked: dict[int, tuple[Heard, Timer]] = {}
        self._number = 0
        self._socket = _connected(resolver.server) if resolver.server else None
        if self._socket is not None:
            loop.add(self._socket.fileno(), READ, self._take)

    def ask(self, host: str, on_done: Heard) -> bool:
        """Ask; return whether that can be asked."""
        name = dns.full_name(host, self._resolver)
        if self._socket is None or not name:
            return False
        self._number = number = (self._number + 1) % 65536
        try:
            self._socket.send(dns.query(number, name, self._loop.now()))
        except (OSError, ValueError):
            return False
        self._asked[number] = (
            on_done,
            self._loop.call_later(_PATIENCE_S, lambda: self._end(number, may_be_there=True)),
        )
        return True

    def close(self) -> None:
        """Take no more answers."""
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()

    def _take(self, _events: int) -> None:
        assert self._socket is not None
        with suppress(OSError):  # nobody listens there, or that was all
            while found := dns.answer(self._socket.recv(_LARGEST)):
                number, is_missing = found
                self._end(number, may_be_there=not is_missing)

    def _end(self, number: int, *, may_be_there: bool) -> None:
        on_done, timer = self._asked.pop(number, (None, None))
        if on_done is not None and timer is not None:
            timer.cancel()
            on_done(may_be_there=may_be_there)


def _connected(server: str) -> _socket.socket | None:
    family = _socket.AF_INET6 if ":" in server else _socket.AF_INET
    try:
        made = _socket.socket(family, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        made.connect((server, _PORT))
    except OSError:
        return None
    return made
