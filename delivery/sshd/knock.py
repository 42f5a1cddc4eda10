"""Tries to get a banner: one connection for each address and port of a worker, at once."""

from __future__ import annotations

import _socket
import errno
from contextlib import suppress
from typing import TYPE_CHECKING

from delivery.sshd import answer
from delivery.sshd.answer import Answer, Kind
from delivery.sshd.pace import BANNER_S
from rshagent.loop import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from delivery.sshd.lookups import Address
    from rshagent.loop import Loop, Timer

# What an ssh client says first: an sshd that hears nothing at all writes an error into the worker's log.
_OURS = b"SSH-2.0-mpi-delivery\r\n"


class Round:
    """Tries all addresses and ports of one worker; `on_done(answer)` has the first banner, else what tells most."""

    def __init__(
        self,
        loop: Loop,
        addresses: Iterable[Address],
        ports: Sequence[int],
        connect_s: float,
        on_done: Callable[[Answer], None],
    ) -> None:
        self._on_done = on_done
        self._best: Answer | None = None
        self._left = [_Try(loop, address, port, connect_s, self._take) for address in addresses for port in ports]

    def start(self) -> None:
        """Connect. `on_done` may be called before this returns."""
        for one in list(self._left):
            if self._left:
                one.start()

    def _take(self, one: _Try, found: Answer) -> None:
        self._left.remove(one)
        if self._best is None or found.kind > self._best.kind:
            self._best = found
        if found.kind is Kind.READY:
            for other in self._left:
                other.close()
            self._left.clear()
        if not self._left:
            self._on_done(self._best)


class _Try:
    """One connection, up to the banner."""

    def __init__(
        self, loop: Loop, address: Address, port: int, connect_s: float, on_done: Callable[[_Try, Answer], None]
    ) -> None:
        self._loop, self._address, self._port = loop, address, port
        self._connect_s, self._on_done = connect_s, on_done
        self._socket: _socket.socket | None = None
        self._timer: Timer | None = None
        self._data = b""

    def start(self) -> None:
        flags = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
        try:
            self._socket = peer = _socket.socket(self._address.family, flags)
        except OSError as error:  # no IPv6 here, or too many descriptors
            self._fail(error.errno or errno.EIO)
            return
        number = peer.connect_ex((self._address.host, self._port, *self._address.rest))
        if number not in (0, errno.EINPROGRESS):
            self._fail(number)
            return
        self._loop.add(peer.fileno(), WRITE, self._connected)
        self._timer = self._loop.call_later(self._connect_s, lambda: self._end(Answer(Kind.TIMED_OUT, self._port)))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _connected(self, _events: int) -> None:
        assert self._socket is not None
        number = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if number:
            self._fail(number)
            return
        assert self._timer is not None
        self._timer.cancel()
        self._timer = self._loop.call_later(BANNER_S, self._time_is_up)
        fd = self._socket.fileno()
        self._loop.remove(fd)
        self._loop.add(fd, READ, self._read)

    def _read(self, _events: int) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(answer.LONGEST)
        except BlockingIOError:
            return
        except OSError:  # reset
            data = b""
        self._data += data
        found = answer.of_bytes(self._data, self._port, is_over=not data)
        if found is None:
            return
        if found.kind is Kind.READY:
            self._say_hello()
        self._end(found)

    def _say_hello(self) -> None:
        assert self._socket is not None
        with suppress(OSError):
            self._socket.send(_OURS)

    def _time_is_up(self) -> None:
        found = answer.of_bytes(self._data, self._port, is_over=True) if self._data.strip() else None
        self._end(found or Answer(Kind.SILENT, self._port))

    def _fail(self, number: int) -> None:
        self._end(answer.of_error(number, self._port))

    def _end(self, found: Answer) -> None:
        self.close()
        self._on_done(self, found)
