"""Which worker a host is: the forms in which launchers name hosts, and the files that list them.

Pure, and shared by the hub and delivery.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

LOCAL = "local"
"""The host is the launcher itself: the command runs here."""

SHOWN_WORKERS = 8
"""How many of a job's workers an error names."""

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
_LOCAL_NAMES = frozenset(("localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"))
_SLOTS_KEYS = ("slots=", "count=", "cpu=", "cpus=")  # Open MPI's synonyms
_MAX_DIGITS = 9
_HOST_MAX = 512  # namespace and DNS name
_MAPPED = bytes(10) + b"\xff\xff"  # how an IPv4 address begins in IPv6 (RFC 4291, 2.5.5.2)


class UnknownHost(Exception):  # noqa: N818  # a finding about the caller's argument, not a failure of ours
    """A host that is no worker of the job; its text is one line that names the workers."""


class Worker(NamedTuple):
    """The pod that a host stands for."""

    namespace: str
    pod: str


class Entry(NamedTuple):
    """One host of a hostfile; slots and namespace are None where the file doesn't say."""

    host: str
    slots: int | None = None
    namespace: str | None = None

    @property
    def pod(self) -> str:
        """The pod's name if the host is `pod.job…`: its first label. An address stays as it is."""
        return self.host if canonical_address(self.host) else self.host.partition(".")[0]


def parse_hostfile(data: bytes | str) -> list[Entry]:
    """Read a hostfile of Open MPI (`host slots=N`) or Hydra and Intel MPI (`host:N`).

    The order is kept and a host named again adds its slots, as Open MPI counts. What is no host is passed over:
    launchers have syntax (`+n0`, `^host`) that names none. Never raises.
    """
    entries: dict[tuple[str | None, str], Entry] = {}
    for words in _lines(data):
        entry = _entry(words)
        if entry is None:
            continue
        key = entry.namespace, entry.host
        slots = [one.slots for one in (entries.get(key), entry) if one is not None]
        if any(count is not None for count in slots):
            entry = entry._replace(slots=sum(1 if count is None else count for count in slots))
        entries[key] = entry
    return list(entries.values())


def parse_hosts(data: bytes | str) -> dict[str, str]:
    """Read lines of `address<TAB>name`, as delivery writes them: canonical address → name.

    The launcher's own line is /etc/hosts' `address name.in.dns name`: of several names it is the shortest.
    """
    addresses: dict[str, str] = {}
    for words in _lines(data):
        address = canonical_address(words[0])
        names = [word for word in words[1:] if _is_name(word)]
        if address and names:
            addresses.setdefault(address, min(names, key=len))
    return addresses


def canonical_address(text: str) -> str | None:
    """Return the one spelling in which equal addresses are equal; None if it is no IPv4 or IPv6 address.

    Brackets and a zone are dropped, and an IPv4 address mapped into IPv6 is the IPv4 address.
    """
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    if ":" not in text and text.count(".") != 3:  # most are names, and an exception costs more
        return None
    try:
        if ":" not in text:
            return socket.inet_ntop(socket.AF_INET, socket.inet_pton(socket.AF_INET, text))
        packed = socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except (OSError, ValueError):  # ValueError: a NUL, or letters that no encoding has
        return None
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed.removeprefix(_MAPPED))
    return socket.inet_ntop(socket.AF_INET6, packed)


class Resolver:
    """Turns the host of a call into a worker of the job.

    The namespace is the one asked for, else the one in the host's form (`ns/pod`, `….ns.svc…`), else the hostfile's,
    else the job's. `pods` are names of pods beyond those of `addresses`: they may have dots.
    """

    def __init__(
        self,
        known: Iterable[Entry],
        addresses: Mapping[str, str],
        namespace: str,
        own_names: frozenset[str] = frozenset(),
        pods: Iterable[str] = (),
    ) -> None:
        self._addresses = addresses
        self._pods = frozenset(addresses.values()).union(pods)
        self._namespace = namespace
        self._own = frozenset(canonical_address(name) or name.lower() for name in own_names if name) | _LOCAL_NAMES
        self._entries = list(known)
        self._names: dict[str, Worker] | None = None

    def _worker(self, entry: Entry) -> Worker:
        name = self._name(entry)
        return Worker(entry.namespace or _dns_namespace(name) or self._namespace, self._pod(name))

    def _name(self, entry: Entry) -> str:
        address = canonical_address(entry.host)
        return self._addresses.get(address, entry.host) if address else entry.host.lower()

    def _index(self) -> dict[str, Worker]:
        """Every name by which an entry may be called; a host as it is written wins over what others are short for."""
        exact: dict[str, Worker] = {}
        short: dict[str, Worker] = {}
        for entry in self._entries:
            name, worker = self._name(entry), self._worker(entry)
            exact.setdefault(canonical_address(entry.host) or name, worker)
            exact.setdefault(f"{worker.namespace}/{worker.pod}", worker)
            short.setdefault(name, worker)
            short.setdefault(worker.pod, worker)
        return short | exact

    def _pod(self, name: str) -> str:
        """The pod's name in a DNS name: what delivery's file says, where it knows it, else the first label."""
        if canonical_address(name):
            return name
        return next((part for part in prefixes(name) if part in self._pods), name.partition(".")[0])

    def resolve(self, host: str, namespace: str | None = None) -> Worker | str:
        """Return the worker that a host stands for, or LOCAL.

        Raises UnknownHost.
        """
        if max(len(host), len(namespace or "")) > _HOST_MAX:  # before it is taken apart, or shown to anybody
            raise UnknownHost(f"host {host[:40]!a}… is longer than any pod's name or address")
        space, slash, given = host.rpartition("/")
        address = canonical_address(given)
        name = address or given.lower()  # DNS names know no case
        if not (address or _is_name(name)) or (slash and not _is_name(space)):
            raise UnknownHost(f"host {host!a} is neither a pod's name nor an address")
        if namespace and not _is_name(namespace):
            raise UnknownHost(f"namespace {namespace!a} is no name")
        wanted = namespace or space or ("" if address else _dns_namespace(name))
        if wanted in ("", self._namespace) and self._names_us(name):
            return LOCAL
        worker = self._find(name, wanted)
        if worker is None:
            raise UnknownHost(_not_a_worker(host, [self._worker(entry).pod for entry in self._entries]))
        return Worker(wanted or worker.namespace, worker.pod)

    def is_own(self, host: str) -> bool:
        """Say whether a host is this pod."""
        try:
            return self.resolve(host) == LOCAL
        except UnknownHost:
            return False

    def _names_us(self, name: str) -> bool:
        if name.startswith("127.") or name == "::1":
            return True
        return name in self._own or any(part in self._own for part in prefixes(self._addresses.get(name, name)))

    def _find(self, name: str, wanted: str) -> Worker | None:
        if self._names is None:
            self._names = self._index()
        if canonical_address(name):
            if name in self._names:
                return self._names[name]
            name = self._addresses.get(name, "")
        for part in prefixes(name):
            worker = self._names.get(f"{wanted}/{part}") or self._names.get(part)
            if worker:
                return worker
        return None


def _not_a_worker(host: str, pods: list[str]) -> str:
    if not pods:
        return f"host {host!a} is not a worker of this job: its hostfile names none"
    more = len(pods) - SHOWN_WORKERS
    shown = ", ".join(pods[:SHOWN_WORKERS]) + (f", … and {more} more" if more > 0 else "")
    return f"host {host!a} is not a worker of this job; its workers are {shown}"


def _lines(data: bytes | str) -> Iterator[list[str]]:
    """Yield the words of each line that has any, without comments."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    for line in text.lstrip("\ufeff").replace("\r", "\n").split("\n"):
        words = line.partition("#")[0].split()
        if words and not words[0].startswith("//"):
            yield words


def _entry(words: list[str]) -> Entry | None:
    namespace, slash, host = words[0].rpartition("@")[2].rpartition("/")
    slots: int | None = None
    if host.startswith("["):
        host, _, count = host[1:].partition("]")
        slots = _number(count.removeprefix(":"))
    elif host.count(":") == 1:
        host, _, count = host.partition(":")
        slots = _number(count)
    if not (_is_name(host) or canonical_address(host)) or (slash and not _is_name(namespace)):
        return None
    for word in " ".join(words[1:]).replace(" =", "=").replace("= ", "=").split():
        for key in _SLOTS_KEYS:
            if word.startswith(key):
                slots = _number(word[len(key) :])
    return Entry(host, slots, namespace or None)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _is_name(text: str) -> bool:
    """Whether a text can be a DNS name: it becomes part of a URL's path, where `..` or `/` would lead elsewhere."""
    return bool(text) and _LETTERS.issuperset(text) and text[0] not in ".-" and ".." not in text


def prefixes(name: str) -> Iterator[str]:
    """Yield `a.b.c`, `a.b`, `a`: a DNS name and its leading parts, the longest first."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _dns_namespace(name: str) -> str:
    """The namespace in `pod.service.NAMESPACE.svc[.any.domain]`, "" in other names (Kubernetes, DNS for Services)."""
    labels = name.split(".")
    return labels[labels.index("svc", 2) - 1] if "svc" in labels[2:] else ""
