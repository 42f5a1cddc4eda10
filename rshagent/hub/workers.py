"""Which workers the hub execs into: those of the hostfile, read again whenever it changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rshagent.hosts import LOCAL, Entry, Resolver, UnknownHost, Worker, canonical_address, parse_hostfile, parse_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rshagent.pods import Pod

__all__ = ["LOCAL", "Worker", "Workers"]


class _Watched:
    """A file that is read again when it was replaced or written (a ConfigMap swaps a symbolic link)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data: bytes | None = None
        self._seen: tuple[int, int, int, int] | None = None

    def refresh(self) -> bool:
        """Read the file if it changed; say whether it did. A missing file is None."""
        try:
            found = os.stat(self.path)
            seen = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return False
            with open(self.path, "rb") as file:
                data: bytes | None = file.read()
        except OSError:
            seen, data = None, None
        changed = data != self.data
        self._seen, self.data = seen, data
        return changed


class Workers:
    """The job's workers by every form of their names. `on_change()` is called after the hostfile has changed."""

    def __init__(
        self, hostfile: str, hosts: str, namespace: str, own_names: frozenset[str], on_change: Callable[[], None]
    ) -> None:
        self._hostfile, self._hosts = _Watched(hostfile), _Watched(hosts)
        self._namespace, self._own_names, self._on_change = namespace, own_names, on_change
        self._entries: list[Entry] = []
        self._namespaces: set[str] = set()
        self._by_name = Resolver([], {}, namespace, own_names)
        self.refresh()

    @property
    def is_missing(self) -> bool:
        """Say whether there is no hostfile."""
        return self._hostfile.data is None

    @property
    def names(self) -> frozenset[str] | None:
        """The workers' pod names, None where the hostfile names addresses, which only the watch can tell apart."""
        if any(canonical_address(entry.host) for entry in self._entries):
            return None
        return frozenset(entry.pod for entry in self._entries) | frozenset(entry.host for entry in self._entries)

    @property
    def all(self) -> list[Worker]:
        """The workers that can be told without the watch: those that the hostfile names by their names."""
        found = [self._by_name.resolve(entry.host, entry.namespace) for entry in self._entries]
        return [one for one in found if isinstance(one, Worker)]

    def refresh(self) -> None:
        """Read what has changed."""
        if self._hosts.refresh() | self._hostfile.refresh():
            before, self._entries = self._entries, parse_hostfile(self._hostfile.data or b"")
            self._by_name = self._resolver({})
            self._namespaces = {self._namespace, *(worker.namespace for worker in self.all)}
            if before != self._entries:
                self._on_change()

    def resolve(self, host: str, namespace: str | None, pods: Mapping[str, Pod] | None) -> Worker | str:
        """Return the worker, or LOCAL. Raises hosts.UnknownHost for any other pod, or without a hostfile."""
        self.refresh()
        found = self._resolve(host, namespace, pods)
        if isinstance(found, Worker) and found.namespace not in self._namespaces:
            raise UnknownHost(f"the namespace {found.namespace!r} is not this job's, and its hostfile does not name it")
        return found

    def _resolve(self, host: str, namespace: str | None, pods: Mapping[str, Pod] | None) -> Worker | str:
        if canonical_address(host) is None:
            return self._by_name.resolve(host, namespace)
        addresses = {canonical_address(ip) or ip: pod.name for pod in (pods or {}).values() for ip in pod.ips}
        return self._resolver(addresses).resolve(host, namespace)

    def _resolver(self, addresses: dict[str, str]) -> Resolver:
        known = parse_hosts(self._hosts.data or b"") | addresses
        return Resolver(self._entries, known, self._namespace, self._own_names)
