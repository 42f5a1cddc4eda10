"""One TLS connection of a client: plain bytes out and in, over a non-blocking socket.

TLS runs on memory buffers rather than on the socket: a read or write of the socket then carries many TLS records, which
is what makes a gigabyte a second possible here.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Any

from .loop import HANG_UP, READ, WRITE, Loop

if TYPE_CHECKING:
    from collections.abc import Callable

_RECORD = 16384
_CHUNK = 256 * 1024
# One thread, and a handler keeps nothing of what it is given: so all connections share these.
_cipher_view = memoryview(bytearray(_CHUNK))
_plain_view = memoryview(bytearray(_CHUNK))


class Connection:
    """Gives what arrives to `receive` (valid during the call only) and calls `ended` once, at its end."""

    def __init__(self, loop: Loop, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.loop = loop
        self.receive: Callable[[memoryview], None] = lambda _data: None
        self.ended: Callable[[], None] = lambda: None
        self.drained: Callable[[], None] | None = None
        self.open = True
        self.closing = False
        self._sock = sock
        self._fd = sock.fileno()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._handshaken = False
        self._unsent = memoryview(b"")
        self._reading = True
        self._frozen = False
        self._mask = READ
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.add(self._fd, READ, self._ready)

    @property
    def congested(self) -> bool:
        """Whether the peer has still to take what was written; `drained` is called when it has."""
        return len(self._unsent) > 0

    @property
    def live(self) -> bool:
        """Whether it is open and not frozen."""
        return self.open and not self._frozen

    @property
    def certificate_subject(self) -> dict[str, list[str]]:
        """What the client's verified certificate says it is ("commonName", "organizationName"); empty without one."""
        subject: dict[str, list[str]] = {}
        certificate: dict[str, Any] = self._tls.getpeercert() or {}
        for group in certificate.get("subject", ()):
            for key, value in group:
                subject.setdefault(key, []).append(value)
        return subject

    def write(self, data: bytes | memoryview) -> None:
        """Encrypt at once and send as the peer takes it."""
        if not self.open or self._frozen:
            return
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += self._tls.write(view[done : done + _RECORD])
        self._flush()

    def close(self, *, reset: bool = False) -> None:
        """Close when what was written has been sent; with `reset` at once, as a crashed peer does."""
        if not self.open or (self._frozen and not reset):
            return
        if reset:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._end()
        elif self._unsent:
            self.closing = True
        else:
            self._say_goodbye()
            self._end()

    def freeze(self) -> None:
        """Neither read nor write any more, and don't close: a peer that is gone without a word."""
        self._frozen = True
        self._watch()

    def pause_reading(self) -> None:
        """Read nothing for a while."""
        self._reading = False
        self._watch()

    def resume_reading(self) -> None:
        """Read again."""
        self._reading = True
        self._watch()

    def _watch(self) -> None:
        if not self.open:
            return
        mask = HANG_UP if self._frozen else (READ if self._reading else 0) | (WRITE if self._unsent else 0)
        if mask != self._mask:
            self._mask = mask
            self.loop.modify(self._fd, mask)

    def _ready(self, mask: int) -> None:
        if self._frozen:
            self._end()  # the client has closed it
            return
        if mask & WRITE:
            self._flush()
        if self.open and mask & ~WRITE:
            self._read()

    def _read(self) -> None:
        try:
            count = self._sock.recv_into(_cipher_view)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self._end()
            return
        self._incoming.write(_cipher_view[:count])
        try:
            if not self._handshaken:
                self._tls.do_handshake()
                self._handshaken = True
                self._flush()
            self._decrypt()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            self._flush()
            self._end()

    def _decrypt(self) -> None:
        more = True
        while more and self.open:
            filled = 0
            while filled <= _CHUNK - _RECORD:
                try:
                    count = self._read_record(filled)
                except ssl.SSLWantReadError:
                    more = False
                    break
                except ssl.SSLZeroReturnError:
                    count = 0
                if count == 0:
                    if filled:
                        self.receive(_plain_view[:filled])
                    self._end()
                    return
                filled += count
            if filled:
                self.receive(_plain_view[:filled])

    def _read_record(self, at: int) -> int:
        read: Any = self._tls.read  # with a buffer it returns a count, which the type stubs don't know
        return int(read(_RECORD, _plain_view[at:]))

    def _flush(self) -> None:
        if not self.open or self._frozen:
            return
        had_waited = len(self._unsent) > 0
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    break
                self._unsent = memoryview(self._outgoing.read())
            try:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
            except BlockingIOError:
                break
            except OSError:
                self._end()
                return
        self._watch()
        if not self._unsent:
            if self.closing:
                self._say_goodbye()
                self._end()
            elif had_waited and self.drained is not None:
                self.drained()

    def _say_goodbye(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # our close_notify is written; the peer's is not waited for
            self._tls.unwrap()
        with contextlib.suppress(OSError):
            self._sock.send(self._outgoing.read())

    def _end(self) -> None:
        if not self.open:
            return
        self.open = False
        self.loop.remove(self._fd)
        self._sock.close()
        self.ended()
