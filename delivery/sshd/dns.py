"""DNS: probes that tell whether a name exists, and the resolver that returns its addresses.

DNS caches keep for up to 30 s that a name does not exist (CoreDNS's plugin `cache`, RFC 2308): a launcher that asks a
moment too early for its workers' addresses would wait that long. CoreDNS keeps it by name and record type, so a probe
asks for a type that nobody uses (RFC 6895: 65280 to 65534) and spoils no query of type A. Where a cache keeps it by the
name alone, nothing is lost.

Addresses come from getaddrinfo, as ssh gets them: /etc/hosts, search domains and all. It blocks, so it runs in threads.
They are daemon threads: one that waits for a DNS server which is down does not delay the end.
"""

from __future__ import annotations

import _socket
import os
import threading
from _queue import SimpleQueue
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from agents.common.loop import READ

if TYPE_CHECKING:
    from typing import Protocol

    from agents.common.loop import Loop, Timer

    class OnProbed(Protocol):
        """Called with the answer; without one in time, the name may exist."""

        def __call__(self, *, may_be_there: bool) -> None:
            """Take it."""

    from collections.abc import Callable

_TYPES = range(65280, 65535)
_TYPE_S = 0.2  # each type is asked for so long; all of them outlast what is kept
_NXDOMAIN = 3
_HEADER = 12
_RECURSION, _RESPONSE = 0x0100, 0x8000


class ResolvConf(NamedTuple):
    """What resolv.conf(5) says: the first name server, "" for none, and the search domains."""

    server: str = ""
    search: tuple[str, ...] = ()


def read_resolv_conf(text: str) -> ResolvConf:
    """Read a resolv.conf. Never raises."""
    server, search = "", tuple[str, ...]()
    for words in map(str.split, text.splitlines()):
        if len(words) > 1 and words[0] == "nameserver" and not server:
            server = words[1]
        elif words and words[0] in ("search", "domain"):
            search = tuple(domain.rstrip(".").lower() for domain in words[1:])
    return ResolvConf(server, search)


def full_name(host: str, resolver: ResolvConf) -> str:
    """Return the name of a pod of a headless Service that a host is short for, "" if it is none.

    Names of pods are `POD.SERVICE.NAMESPACE.svc.DOMAIN`; the domain is known by the search domain `svc.DOMAIN`.
    """
    ends = [f".{domain}" for domain in resolver.search if domain.startswith("svc.")]
    for name in (host, *(f"{host}.{domain}" for domain in resolver.search)):
        for end in ends:
            if name.endswith(end) and name.removesuffix(end).count(".") == 2:
                return name
    return ""


def query(number: int, name: str, now: float) -> bytes:
    """Return a query for a name (RFC 1035, 4.1), of a type that depends on the time. Raises ValueError for no name."""
    labels = [label.encode("ascii") for label in name.split(".")]
    if not all(0 < len(label) < 64 for label in labels):
        raise ValueError(name)
    asked = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    header = b"".join(word.to_bytes(2, "big") for word in (number, _RECURSION, 1, 0, 0, 0))
    kind = _TYPES[int(now / _TYPE_S) % len(_TYPES)]
    return header + asked + kind.to_bytes(2, "big") + b"\0\1"


def read_answer(data: bytes) -> tuple[int, bool] | None:
    """Return an answer's number, and whether it says that the name doesn't exist; None if it isn't an answer."""
    flags = int.from_bytes(data[2:4], "big")
    if len(data) < _HEADER or not flags & _RESPONSE:
        return None
    return int.from_bytes(data[:2], "big"), flags & 0xF == _NXDOMAIN


_PATIENCE_S = 0.3  # then the name's address is asked for all the same
_PORT = 53
_LARGEST = 4096


class DnsProbe:
    """Sends all probes from one socket."""

    def __init__(self, loop: Loop, resolver: ResolvConf) -> None:
        self._loop, self._resolver = loop, resolver
        self._asked: dict[int, tuple[OnProbed, Timer]] = {}
        self._number = 0
        self._socket = _connected(resolver.server) if resolver.server else None
        if self._socket is not None:
            loop.add(self._socket.fileno(), READ, self._take)

    def ask(self, host: str, on_done: OnProbed) -> bool:
        """Probe a host's name; return False if it can't be probed."""
        name = full_name(host, self._resolver)
        if self._socket is None or not name:
            return False
        self._number = number = (self._number + 1) % 65536
        try:
            self._socket.send(query(number, name, self._loop.now()))
        except (OSError, ValueError):
            return False
        self._asked[number] = (
            on_done,
            self._loop.call_later(_PATIENCE_S, lambda: self._end(number, may_be_there=True)),
        )
        return True

    def close(self) -> None:
        """Stop taking answers."""
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()

    def _take(self, _events: int) -> None:
        assert self._socket is not None
        with suppress(OSError):  # nobody listens there, or that was all
            while found := read_answer(self._socket.recv(_LARGEST)):
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


class Resolver:
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
        """Stop taking answers, and let the threads end: delivery may wait again when the launcher is restarted."""
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
