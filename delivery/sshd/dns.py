"""Queries that ask whether a name is there without harm to who asks for its address later. Pure.

Caches of DNS keep it for up to 30 s that a name is not there (CoreDNS's plugin `cache`, RFC 2308), and a launcher that
asks a moment before its workers have their addresses would wait so long. CoreDNS keeps it by name and type of record:
a query of a type that nobody uses (RFC 6895: 65280 to 65534) is answered as well, and spoils none of type A. Where a
cache keeps it by the name alone, nothing is lost.
"""

from __future__ import annotations

from typing import NamedTuple

_TYPES = range(65280, 65535)
_TYPE_S = 0.2  # each type is asked for so long; all of them outlast what is kept
_NXDOMAIN = 3
_HEADER = 12
_RECURSION, _RESPONSE = 0x0100, 0x8000


class Resolver(NamedTuple):
    """What resolv.conf(5) says: the first name server, "" for none, and the search domains."""

    server: str = ""
    search: tuple[str, ...] = ()


def read(text: str) -> Resolver:
    """Read a resolv.conf. Never raises."""
    server, search = "", tuple[str, ...]()
    for words in map(str.split, text.splitlines()):
        if len(words) > 1 and words[0] == "nameserver" and not server:
            server = words[1]
        elif words and words[0] in ("search", "domain"):
            search = tuple(domain.rstrip(".").lower() for domain in words[1:])
    return Resolver(server, search)


def full_name(host: str, resolver: Resolver) -> str:
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


def answer(data: bytes) -> tuple[int, bool] | None:
    """Return an answer's number, and whether it says that there is no such name; None for what is no answer."""
    flags = int.from_bytes(data[2:4], "big")
    if len(data) < _HEADER or not flags & _RESPONSE:
        return None
    return int.from_bytes(data[:2], "big"), flags & 0xF == _NXDOMAIN
