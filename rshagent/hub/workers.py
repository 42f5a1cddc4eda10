"""Which workers the hub execs into: those of the hostfile, read again whenever it changes.

A ConfigMap's volume lags behind by a minute and more. Where a label selector tells the job's workers, each pod that
the watch finds by it is one as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.files import WatchedFile
from rshagent.call import discovery
from rshagent.call.hosts import Entry, Resolver, UnknownHost, Worker, canonical_address, parse_hostfile, parse_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from agents.common.pods import Pod


class Workers:
    """The job's workers by every form of their names. `on_change()` is called after the hostfile has changed."""

    def __init__(
        self,
        hostfile: str,
        hosts: str,
        namespace: str,
        own_names: frozenset[str],
        on_change: Callable[[], None],
        *,
        by_selector: bool = False,
    ) -> None:
        self._by_selector = by_selector
        self._hostfile, self._hosts = WatchedFile(hostfile), WatchedFile(hosts)
        self._namespace, self._own_names, self._on_change = namespace, own_names, on_change
        self._entries: list[Entry] = []
        self._named: list[Worker] = []
        self._namespaces: set[str] = set()
        self._by_name = Resolver([], {}, namespace, own_names)
        self.refresh()

    @property
    def is_missing(self) -> bool:
        """Say whether there is no hostfile."""
        return self._hostfile.data is None

    @property
    def names(self) -> frozenset[str] | None:
        """The workers' pod names; None where only the watch can tell, by the selector or by their addresses."""
        return None if self._by_selector else discovery.names(self._entries)

    def all(self, pods: Mapping[str, Pod] | None) -> list[Worker]:
        """Return the workers that the hostfile names by their names, and those that the selector has found."""
        return [*self._named, *(Worker(self._namespace, pod) for pod in self._new(pods))]

    def discover(self, pods: Mapping[str, Pod], slots: int | None) -> list[str]:
        """Return the hosts that are Ready now, as `--discover-hosts` prints them."""
        return discovery.lines(self._entries, self.seen(pods), own=self._by_name, slots=slots)

    def seen(self, pods: Mapping[str, Pod]) -> dict[str, Pod]:
        """Return the workers' pods as they are now."""
        self.refresh()
        return discovery.workers(self._entries, pods, own=self._by_name, by_selector=self._by_selector)

    def _new(self, pods: Mapping[str, Pod] | None) -> list[str]:
        """Return the pods that the selector has found and the hostfile does not have."""
        if not self._by_selector or not pods:
            return []
        known = {worker.pod for worker in self._named}
        return [pod for pod in pods if pod not in known and not self._by_name.is_own(pod)]

    def refresh(self) -> None:
        """Read what has changed."""
        if self._hosts.refresh() | self._hostfile.refresh():
            before, self._entries = self._entries, parse_hostfile(self._hostfile.data or b"")
            self._by_name = self._resolver({})
            found = [self._by_name.resolve(entry.host, entry.namespace) for entry in self._entries]
            self._named = [worker for worker in found if isinstance(worker, Worker)]
            self._namespaces = {self._namespace, *(worker.namespace for worker in self._named)}
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
        is_name = canonical_address(host) is None
        try:
            return (self._by_name if is_name else self._by_watch(pods, ())).resolve(host, namespace)
        except UnknownHost:
            new = self._new(pods)
            if not new:
                raise
        return self._by_watch(pods, new).resolve(host, namespace)

    def _by_watch(self, pods: Mapping[str, Pod] | None, new: Collection[str]) -> Resolver:
        addresses = {canonical_address(ip) or ip: pod.name for pod in (pods or {}).values() for ip in pod.ips}
        return self._resolver(addresses, new)

    def _resolver(self, addresses: dict[str, str], new: Collection[str] = ()) -> Resolver:
        known = parse_hosts(self._hosts.data or b"") | addresses
        entries = [*self._entries, *(Entry(pod) for pod in new)]
        return Resolver(entries, known, self._namespace, self._own_names, new)
