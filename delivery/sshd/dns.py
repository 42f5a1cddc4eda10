"""DNS: probes that tell whether a name exists, and the resolver that returns its addresses.

DNS caches remember for up to 30 s that a name does not exist (CoreDNS's plugin `cache`, RFC 2308): a launcher that
asks a moment too early for its workers' addresses would wait that long. CoreDNS remembers it by name and record type,
so a probe asks for a type that is not in use (RFC 6895: 65280 to 65534) and does not affect queries of type A. Where a
cache remembers it by the name alone, nothing is lost.

Addresses come from getaddrinfo, as ssh gets them: /etc/hosts, search domains and all. It blocks, so it runs in threads.
They are daemon threads: one that waits for a DNS server which is down does not delay the end.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple

from agents.common.loop import READ, Loop, Timer

_TYPES = range(65280, 65535)
_TYPE_S = 0.2  # how long each type is used; all of them together last longer than a cache remembers
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
    """Return the full DNS name of a host that is a pod of a headless Service, "" if it is none.

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


TIMEOUT_S = 0.3  # then the name's address is looked up all the same
PORT = 53
_LARGEST = 4096


class DnsProbe:
    """Sends all probes from one socket."""

    def __init__(self, loop: Loop, resolver: ResolvConf) -> None:
        self._loop, self._resolver = loop, resolver
        self._asked: dict[int, tuple[Callable[[], None], Callable[[], None], Timer]] = {}
        self._number = 0
        self._socket = _connected(resolver.server) if resolver.server else None
        if self._socket is not None:
            loop.add(self._socket.fileno(), READ, self._take)

    def ask(self, host: str, on_missing: Callable[[], None], otherwise: Callable[[], None]) -> bool:
        """Probe a host's name; return False if it can't be probed.

        `otherwise` is called if the name exists, and if no answer came in time.
        """
        name = full_name(host, self._resolver)
        if self._socket is None or not name:
            return False
        self._number = number = (self._number + 1) % 65536
        try:
            self._socket.send(query(number, name, self._loop.now()))
        except (OSError, ValueError):
            return False
        timer = self._loop.call_later(TIMEOUT_S, lambda: self._end(number, is_missing=False))
        self._asked[number] = on_missing, otherwise, timer
        return True

    def close(self) -> None:
        """Stop taking answers."""
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()

    def _take(self, _events: int) -> None:
        assert self._socket is not None
        with suppress(OSError):  # nothing listens there, or that was all
            while found := read_answer(self._socket.recv(_LARGEST)):
                number, is_missing = found
                self._end(number, is_missing=is_missing)

    def _end(self, number: int, *, is_missing: bool) -> None:
        if number in self._asked:
            on_missing, otherwise, timer = self._asked.pop(number)
            timer.cancel()
            (on_missing if is_missing else otherwise)()


def _connected(server: str) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        made = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        made.connect((server, PORT))
    except OSError:
        return None
    return made


_THREADS = 16
_NO_NAME = frozenset({socket.EAI_NONAME, -5, -9})  # -5 EAI_NODATA, -9 EAI_ADDRFAMILY: netdb.h, glibc and musl


class Address(NamedTuple):
    """Where to connect to; `rest`: what an IPv6 socket address has beside host and port."""

    family: int
    host: str
    rest: tuple[int, ...] = ()


class Found(NamedTuple):
    """The result of a lookup: addresses in ssh's order, or none; `error`: why DNS gave no answer, "" if it did."""

    addresses: tuple[Address, ...]
    error: str = ""


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
        found = socket.getaddrinfo(name.encode(), None, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except socket.gaierror as error:
        return Found((), "" if error.errno in _NO_NAME else str(error.strerror))
    except (OSError, UnicodeError) as error:
        return Found((), str(error))
    places = (Address(family, str(at[0]), tuple(int(part) for part in at[2:])) for family, _, _, _, at in found)
    return Found(tuple(dict.fromkeys(places)))
