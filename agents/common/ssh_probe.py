"""Asks a port whether an sshd is there: connects and reads its banner (RFC 4253, 4.2), without a key.

An sshd sends its version first; other lines may come before it. An sshd that is overloaded or penalizes the client's
address sends a line that reports it instead (OpenSSH, sshd.c: drop_connection), or closes the connection.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from agents.common.loop import NO_TIMER, READ, WRITE, Loop

SocketAddress = tuple[str | int, ...]

BANNER_S = 5.0  # from the connection to the banner: a hundred sshds may start on one node
LONGEST = 4096  # bytes before the version that are read
_BUSY = (b"Exceeded MaxStartups", b"Not allowed at this time")
_SHOWN = 60


class Outcome(IntEnum):
    """What a probe found; of several addresses and ports, the highest value says most."""

    UNREACHABLE = 1
    TIMED_OUT = 2
    REFUSED = 3
    SILENT = 4
    CLOSED = 5
    NOT_SSH = 6
    BUSY = 7
    READY = 8


class Result(NamedTuple):
    """How a probe ended; `text`: the line that the peer sent, or the system's error."""

    outcome: Outcome
    port: int
    text: str = ""


def classify(received: bytes, port: int, *, is_over: bool) -> Result | None:
    """Return what the bytes received so far mean; None: more bytes are needed.

    `is_over`: the peer has closed the connection, or its time is up. A version counts only as a whole line.
    """
    lines = received.split(b"\n")
    version = next((line for line in lines[:-1] if line.startswith(b"SSH-")), None)
    if version is not None:
        return Result(Outcome.READY, port, _shown(version))
    if received.startswith(_BUSY):
        return Result(Outcome.BUSY, port, _shown(lines[0]))
    if len(received) >= LONGEST or (is_over and received.strip()):
        return Result(Outcome.NOT_SSH, port, _shown(lines[0]))
    return Result(Outcome.CLOSED, port) if is_over else None


def of_error(number: int, port: int) -> Result:
    """Return what an errno of connect(2) means."""
    if number == errno.ECONNREFUSED:
        return Result(Outcome.REFUSED, port)
    if number == errno.ETIMEDOUT:
        return Result(Outcome.TIMED_OUT, port)
    return Result(Outcome.UNREACHABLE, port, os.strerror(number))


class Probe:
    """One connection, up to the banner; then `on_done(probe, result)` is called once, unless it was closed before.

    `identification` is the version line that we send to an sshd: without one it logs an error.
    """

    def __init__(
        self,
        loop: Loop,
        family: int,
        address: SocketAddress,
        identification: bytes,
        connect_s: float,
        on_done: Callable[[Probe, Result], None],
    ) -> None:
        self._loop, self._family, self._address, self._port = loop, family, address, int(address[1])
        self._identification, self._connect_s, self._on_done = identification, connect_s, on_done
        self._socket: socket.socket | None = None
        self._timer = NO_TIMER
        self._received = b""

    def start(self) -> None:
        """Connect. `on_done` may be called before this returns."""
        flags = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        try:
            self._socket = peer = socket.socket(self._family, flags)
        except OSError as error:  # no IPv6 here, or too many descriptors
            self._end(of_error(error.errno or errno.EIO, self._port))
            return
        number = peer.connect_ex(self._address)
        if number not in (0, errno.EINPROGRESS):
            self._end(of_error(number, self._port))
            return
        self._loop.add(peer.fileno(), WRITE, self._connected)
        self._timer = self._loop.call_later(self._connect_s, lambda: self._end(Result(Outcome.TIMED_OUT, self._port)))

    def close(self) -> None:
        """Give up; harmless when it has ended."""
        self._timer.cancel()
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _connected(self, _events: int) -> None:
        assert self._socket is not None
        number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._end(of_error(number, self._port))
            return
        self._timer.cancel()
        self._timer = self._loop.call_later(BANNER_S, self._time_is_up)
        fd = self._socket.fileno()
        self._loop.remove(fd)
        self._loop.add(fd, READ, self._read)

    def _read(self, _events: int) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:  # reset
            data = b""
        self._received += data
        result = classify(self._received, self._port, is_over=not data)
        if result is None:
            return
        if result.outcome is Outcome.READY:
            with suppress(OSError):
                self._socket.send(self._identification)
        self._end(result)

    def _time_is_up(self) -> None:
        result = classify(self._received, self._port, is_over=True) if self._received.strip() else None
        self._end(result or Result(Outcome.SILENT, self._port))

    def _end(self, result: Result) -> None:
        self.close()
        self._on_done(self, result)


def _shown(line: bytes) -> str:
    """Return the beginning of an untrusted peer's line in printable ASCII."""
    text = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in line.rstrip(b"\r")[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
