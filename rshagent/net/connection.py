"""A TLS connection to the API server on the loop: connect, maybe through a proxy, handshake, then bytes both ways.

    connecting ─► proxying (only where there is a proxy) ─► handshaking ─► open ─► closed

Any state can go to closed; `Owner.closed` is called exactly once then, unless the owner itself called `close`.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
from collections.abc import Callable
from typing import NamedTuple

from agents.common.loop import Loop
from rshagent.net.cluster import Cluster
from rshagent.net.fds import held
from rshagent.net.http import HeadReader, HttpError
from rshagent.net.tls import Closed, EndOfStream, Tls, TlsError, UntrustedCertificate, WantRead, WantWrite

CONNECT_TIMEOUT_S = 10.0  # for TCP, proxy and TLS together

_READ_SIZE = 64 * 1024
_RECORD_MAX = 16 * 1024  # RFC 8446 §5.1: one TLS record, and so one read, holds at most this
_KEPT_UP = 1024 * 1024  # bytes: far more than a pipe or a socket takes while its reader does nothing
_UNWATCHED = -1

# One buffer for all connections: the owner consumes or copies what was read before the next read.
_buffer = bytearray(_READ_SIZE)
_view = memoryview(_buffer)


class Socket(_socket.socket):
    """A socket that TLS can hold a weak reference to, without what `socket` puts around each call."""

    __slots__ = ("__weakref__",)


class Lost(NamedTuple):
    """Why a connection ended, in one line for people; `is_final`: we don't trust the server, and a retry can't help."""

    reason: str
    is_final: bool = False


class Owner:
    """What a connection calls. `received`'s view is valid during the call only."""

    __slots__ = ()

    def opened(self) -> None:
        """The connection is open for `send`."""

    def received(self, data: memoryview) -> None:
        """Bytes came."""

    def drained(self) -> None:
        """All that was sent has gone to the kernel, after it had not (`Link.is_behind`)."""

    def closed(self, lost: Lost) -> None:
        """The connection is gone."""


class Link:
    """One connection; see the module for its states."""

    __slots__ = (
        "_addresses",
        "_cluster",
        "_context",
        "_loop",
        "_mask",
        "_out",
        "_owner",
        "_proxy",
        "_sock",
        "_state",
        "_taken",
        "_timer",
        "_tls",
        "_waiting",
        "is_behind",
        "is_paused",
    )

    def __init__(self, loop: Loop, cluster: Cluster, owner: Owner) -> None:
        """Start to connect; the loop reports the result, never this call."""
        self._loop, self._cluster, self._owner = loop, cluster, owner
        self._sock: Socket | None = None
        self._context = cluster.tls
        self._tls: Tls | None = None
        self._out: list[memoryview] = []  # what the kernel has not taken yet
        self._waiting = 0  # bytes in it
        self.is_behind = False  # the kernel, which has megabytes already, took no more: the source is to pause
        self._mask = 0
        self.is_paused = False
        self._taken = 0  # bytes that were read since it was paused
        self._proxy = HeadReader() if cluster.proxy else None
        self._state = "connecting"
        self._addresses: list[tuple[int, tuple[object, ...]]] = []
        self._timer = loop.call_later(CONNECT_TIMEOUT_S, self._too_late)
        loop.call_later(0, self._resolve)

    def send(self, data: bytes) -> None:
        """Send, or keep what does not fit now."""
        self._out.append(memoryview(data))
        self._count(len(data))
        if self._state == "open":
            self._guard(self._flush)
        else:
            self.is_behind = True

    def pause(self) -> None:
        """Stop reading: what we would read has nowhere to go."""
        self.is_paused, self._taken = True, 0
        self._watch()

    def resume(self) -> None:
        """Read again, including what TLS had already taken from the socket."""
        if self.is_paused:
            self.is_paused = False
            self._watch()
            self._loop.call_later(0, self._read_pending)

    def close(self) -> None:
        """Close; the owner is not called."""
        was_open, self._state = self._state == "open", "closed"
        self._timer.cancel()
        if self._sock is not None:
            self._loop.remove(self._sock.fileno())
            self._sock.close()
            self._sock = None
        if self._tls is not None and was_open:  # a TLS session ticket comes after the handshake
            self._context.remember(self._tls)
        self._tls = None
        self._out.clear()
        self._count(-self._waiting)

    def abandon(self) -> None:
        """Give the connection up after an error of our own."""
        self._lose(Lost("internal error"))

    def _resolve(self) -> None:
        """Look the server up. In a cluster it is an address; elsewhere a name, and this waits for the resolver."""
        if self._state != "connecting":
            return
        via = self._cluster.proxy or self._cluster
        try:
            # As bytes: a str would be taken through Python's IDNA codec.
            found = _socket.getaddrinfo(via.host.encode("ascii"), via.port, 0, _socket.SOCK_STREAM)
        except OSError as error:
            self._lose(Lost(f"{via.host} is not known: {error.strerror or error}"))
            return
        self._addresses = [(family, address) for family, _, _, _, address in found]
        self._connect(OSError(errno.EADDRNOTAVAIL, "no address"))

    def _connect(self, last: OSError) -> None:
        """Try the next address; `last` says why the one before failed."""
        if self._sock is not None:
            self._loop.remove(self._sock.fileno())
            self._sock.close()
            self._sock = None
        while self._addresses:
            family, address = self._addresses.pop(0)
            try:
                sock = Socket(family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
            except OSError as error:  # out of descriptors, or no such family here
                last = error
                continue
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            code = sock.connect_ex(address)
            if code in (0, errno.EINPROGRESS):
                self._sock, self._mask = sock, select.EPOLLOUT
                self._loop.add(sock.fileno(), self._mask, self._ready)
                return
            sock.close()
            last = OSError(code, os.strerror(code))
        via = "the proxy" if self._cluster.proxy else "the API server"
        self._lose(Lost(f"{via} can't be reached: {last.strerror}"))

    def _ready(self, events: int) -> None:
        if self.is_paused and self._state == "open" and events & (select.EPOLLERR | select.EPOLLHUP):
            # The peer has gone. This can't be masked, and is found again, behind what it has sent, by `resume`.
            assert self._sock is not None
            self._loop.remove(self._sock.fileno())
            self._mask = _UNWATCHED
            return
        self._guard(self._advance)

    def _guard(self, step: Callable[[], None]) -> None:
        """Run a step; report a failed connection to the owner. Any other error is a bug and is raised."""
        try:
            step()
        except EndOfStream:
            self._lose(Lost("the API server closed the connection"))
        except UntrustedCertificate as error:
            reason = getattr(error, "verify_message", "") or "verification failed"
            self._lose(Lost(f"the API server's certificate is not trusted: {reason}", is_final=True))
        except TlsError as error:
            self._lose(Lost(f"TLS with the API server failed: {error.reason or error}"))
        except HttpError as error:
            self._lose(Lost(f"the proxy's answer can't be read: {error}"))
        except OSError as error:
            self._lose(Lost(f"the connection to the API server failed: {error.strerror or error}"))

    def _advance(self) -> None:
        if self._state == "open":
            if self._out:
                self._flush()
            self._read()
        elif self._state == "connecting":
            self._finish_connect()
        elif self._state == "proxying":
            self._read_proxy()
        elif self._state == "handshaking":
            self._handshake()

    def _finish_connect(self) -> None:
        assert self._sock is not None
        code = self._sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if code:
            self._connect(OSError(code, os.strerror(code)))
            return
        if self._proxy is None:
            self._start_tls()
            return
        authority, asked = self._cluster.authority, self._cluster.proxy
        assert asked is not None
        credentials = f"Proxy-Authorization: {asked.authorization}\r\n" if asked.authorization else ""
        self._sock.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n".encode("latin-1"))
        self._state = "proxying"
        self._set_mask(select.EPOLLIN)

    def _read_proxy(self) -> None:
        assert self._sock is not None
        assert self._proxy is not None
        # Byte by byte would be safe, whole is too: a proxy sends nothing after its head before TLS begins.
        data = self._sock.recv(4096)
        if not data:
            raise HttpError("it closed the connection")
        head = self._proxy.feed(data)
        if head is None:
            return
        if head.status // 100 != 2:
            self._lose(Lost(f"the proxy refused to connect to the API server ({head.status})"))
            return
        self._start_tls()

    def _start_tls(self) -> None:
        assert self._sock is not None
        self._context = self._cluster.tls
        self._tls = self._context.wrap(self._sock, self._cluster.host)
        self._state = "handshaking"
        self._handshake()

    def _handshake(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except WantRead:
            self._set_mask(select.EPOLLIN)
            return
        except WantWrite:
            self._set_mask(select.EPOLLOUT)
            return
        self._state = "open"
        self._timer.cancel()
        self._owner.opened()
        if self._state == "open":
            self._flush()
            self._watch()

    def _flush(self) -> None:
        assert self._tls is not None
        out, was_behind = self._out, self.is_behind
        while out:
            try:
                sent = self._tls.write(out[0])
            except (WantRead, WantWrite):
                break
            self._count(-sent)
            out[0] = out[0][sent:]
            if not out[0]:
                del out[0]
        self.is_behind = bool(out)
        self._watch()
        if was_behind and not out:
            self._owner.drained()

    def _read_pending(self) -> None:
        if self._state == "open" and not self.is_paused:
            self._guard(self._read)

    def _read(self) -> None:
        """Give the owner, in one piece, what has come, but at most what is good to keep if it can't pass it on.

        A read of a record's size leaves nothing of it with TLS, so the loop calls again where there is more.
        """
        if self._tls is None or self.is_paused:
            return
        filled, last = 0, held.piece(kept_up=self._taken >= _KEPT_UP) - _RECORD_MAX
        while filled <= last:
            try:
                count = self._tls.read(_RECORD_MAX, _view[filled:])
                if count == 0:
                    raise Closed
            except (WantRead, WantWrite):
                break
            except (*EndOfStream, OSError):
                if filled:
                    self._owner.received(_view[:filled])
                if self._state == "open":
                    raise
                return
            filled += count
        self._taken += filled
        if filled:
            self._owner.received(_view[:filled])

    def _count(self, change: int) -> None:
        """Count what waits to be sent; the bytes are in memory until the last of a piece has gone."""
        self._waiting += change
        held.total += change

    def _watch(self) -> None:
        if self._state == "open":
            read = 0 if self.is_paused else select.EPOLLIN
            self._set_mask(read | (select.EPOLLOUT if self._out else 0))

    def _set_mask(self, mask: int) -> None:
        if mask != self._mask and self._sock is not None:
            if self._mask == _UNWATCHED:
                self._loop.add(self._sock.fileno(), mask, self._ready)
            else:
                self._loop.modify(self._sock.fileno(), mask)
            self._mask = mask

    def _too_late(self) -> None:
        self._lose(Lost(f"the API server did not answer within {CONNECT_TIMEOUT_S:.0f} s ({self._state})"))

    def _lose(self, lost: Lost) -> None:
        if self._state != "closed":
            self.close()
            self._owner.closed(lost)
