"""The pods of the cluster, their versions, and the log of changes that watches read."""

from __future__ import annotations

import copy
import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Object = dict[str, Any]
_KEPT = 4096  # changes; a watch that asks for an older version gets 410


@dataclass(frozen=True)
class Change:
    """One change of one pod. Objects are never changed once they are in a Change."""

    version: int
    kind: str  # ADDED, MODIFIED, DELETED
    before: Object | None
    after: Object


class ExistsError(Exception):
    """There is a pod of that name."""


class Store:
    """Pods by namespace and name. Each write gets the next resourceVersion."""

    def __init__(self) -> None:
        self.version = 1000
        self.oldest = 1000  # the version that the log reaches back to
        self.watchers: list[Callable[[Change], None]] = []
        self._pods: dict[tuple[str, str], Object] = {}
        self._log: deque[Change] = deque(maxlen=_KEPT)
        self._json: dict[int, bytes] = {}

    def get(self, namespace: str, name: str) -> Object | None:
        """A pod, not to be changed; None if there is none."""
        return self._pods.get((namespace, name))

    def all(self, namespace: str | None) -> list[Object]:
        """The pods of a namespace (None: of all), in the API's order."""
        return [pod for key, pod in sorted(self._pods.items()) if namespace is None or key[0] == namespace]

    def create(self, thing: Object) -> Object:
        """Add a pod. Raises ExistsError."""
        key = (thing["metadata"]["namespace"], thing["metadata"]["name"])
        if key in self._pods:
            raise ExistsError(key[1])
        return self._write("ADDED", None, thing)

    def update(self, namespace: str, name: str, change: Callable[[Object], None]) -> Object:
        """Change a pod through a function that gets a copy. Raises KeyError."""
        before = self._pods[namespace, name]
        after = copy.deepcopy(before)
        change(after)
        return self._write("MODIFIED", before, after)

    def delete(self, namespace: str, name: str) -> Object:
        """Remove a pod. Raises KeyError."""
        before = self._pods.pop((namespace, name))
        return self._write("DELETED", before, copy.deepcopy(before))

    def since(self, version: int) -> Iterable[Change]:
        """The changes after a version that is not older than `oldest`."""
        return [change for change in self._log if change.version > version]

    def forget(self) -> None:
        """Drop the log: every watch from an earlier version now gets 410, as after etcd's compaction."""
        self.version += 1
        self.oldest = self.version
        self._log.clear()

    def encoded(self, thing: Object) -> bytes:
        """A pod as JSON; each version is encoded once."""
        version = int(thing["metadata"]["resourceVersion"])
        data = self._json.get(version)
        if data is None:
            data = self._json[version] = json.dumps(thing, separators=(",", ":")).encode()
            if len(self._json) > 2 * _KEPT:
                del self._json[next(iter(self._json))]
        return data

    def _write(self, kind: str, before: Object | None, after: Object) -> Object:
        self.version += 1
        meta = after["metadata"]
        meta["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self._pods[meta["namespace"], meta["name"]] = after
        if len(self._log) == _KEPT:
            self.oldest = self._log[0].version
        change = Change(self.version, kind, before, after)
        self._log.append(change)
        for tell in tuple(self.watchers):
            tell(change)
        return after
