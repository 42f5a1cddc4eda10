"""Asks a listening socket for its banner, without waiting for it."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING

from agents.worker.keeper import Answer, Heard, understood
from rshagent.loop import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.worker.listening import Listener
    from rshagent.loop import Loop

PATIENCE_S = 5.0
_OWN = b"SSH-2.0-mpi_worker\r\n"
"""Without it sshd logs two lines, one of them an error; with it one."""


class Question:
    """One connection, and the one call of `told` that it leads to."""

    def __init__(self, loop: Loop, listener: Listener, told: Callable[[Answer], None]) -> None:
        self._loop, self._told = loop, told
        self._data = b""
        self._socket = socket.socket(socket.AF_INET6 if ":" in listener.address else socket.AF_INET)
        self._socket.setblocking(False)
        self._patience = loop.call_later(PATIENCE_S, self._give_up)
        code = self._socket.connect_ex((listener.address, listener.port))
        loop.add(self._socket.fileno(), WRITE, self._connected)
        if code not in (0, errno.EINPROGRESS):
            loop.call_later(0, self._refused)

    def close(self) -> None:
        """Forget the question; harmless when it was answered."""
        if self._socket.fileno() < 0:
            return
        self._patience.cancel()
        self._loop.remove(self._socket.fileno())
        self._socket.close()

    def _connected(self, _events: int) -> None:
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._refused()
            return
        self._loop.remove(self._socket.fileno())
        self._loop.add(self._socket.fileno(), READ, self._read)

    def _read(self, _events: int) -> None:
        try:
            data = self._socket.recv(4096)
        except OSError:
            data = b""
        self._data += data
        # What ends without a line's end is complete too.
        answer = understood(self._data if data or not self._data else self._data + b"\n")
        if answer is not None and answer.heard is Heard.BANNER:
            with contextlib.suppress(OSError):
                self._socket.send(_OWN)
        if answer or not data:
            self._answer(answer or Answer(Heard.SILENT))

    def _give_up(self) -> None:
        self._answer(Answer(Heard.SILENT))

    def _refused(self) -> None:
        if self._socket.fileno() >= 0:
            self._answer(Answer(Heard.REFUSED))

    def _answer(self, answer: Answer) -> None:
        self.close()
        self._told(answer)
