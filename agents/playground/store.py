"""All objects of the cluster, their versions, and the log of changes that watches read."""

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
    """One change of one object. Objects are never changed once they are in a Change."""

    version: int
    key: str  # of the kind: resources.Resource.key
    kind: str  # ADDED, MODIFIED, DELETED
    before: Object | None
    after: Object


class ExistsError(Exception):
    """There is an object of that kind and name."""


class Store:
    """Objects by kind, namespace and name. Each write gets the next resourceVersion."""

    def __init__(self) -> None:
        self.version = 1000
        self.oldest = 1000  # the version that the log reaches back to
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self._watchers: dict[str, list[Callable[[Change], None]]] = {}
        self._log: deque[Change] = deque(maxlen=_KEPT)
        self._json: dict[tuple[int, str], bytes] = {}

    def get(self, key: str, namespace: str, name: str) -> Object | None:
        """An object, not to be changed; None if there is none."""
        return self._objects.get(key, {}).get((namespace, name))

    def all(self, key: str, namespace: str | None = None) -> list[Object]:
        """The objects of a kind in a namespace (None: in all), in the API's order."""
        found = sorted(self._objects.get(key, {}).items())
        return [thing for where, thing in found if namespace is None or where[0] == namespace]

    def everything(self) -> Iterable[tuple[str, Object]]:
        """All objects, each with its kind's key."""
        return [(key, thing) for key, things in self._objects.items() for thing in things.values()]

    def create(self, key: str, thing: Object) -> Object:
        """Add an object. Raises ExistsError."""
        name = thing["metadata"]["name"]
        if (thing["metadata"].get("namespace", ""), name) in self._objects.get(key, {}):
            raise ExistsError(name)
        return self._write(key, "ADDED", None, thing)

    def update(self, key: str, namespace: str, name: str, change: Callable[[Object], None]) -> Object:
        """Change an object through a function that gets a copy. Raises KeyError."""
        before = self._objects.get(key, {})[namespace, name]
        after = copy.deepcopy(before)
        change(after)
        return self._write(key, "MODIFIED", before, after)

    def delete(self, key: str, namespace: str, name: str) -> Object:
        """Remove an object. Raises KeyError."""
        before = self._objects.get(key, {}).pop((namespace, name))
        return self._write(key, "DELETED", before, copy.deepcopy(before))

    def since(self, key: str, version: int) -> Iterable[Change]:
        """The changes of a kind after a version that is not older than `oldest`."""
        return [change for change in self._log if change.version > version and change.key == key]

    def forget(self) -> None:
        """Drop the log: every watch from an earlier version now gets 410, as after etcd's compaction."""
        self.version += 1
        self.oldest = self.version
        self._log.clear()

    def subscribe(self, key: str, tell: Callable[[Change], None]) -> Callable[[], None]:
        """Tell every change of a kind from now on; the returned function ends it."""
        watchers = self._watchers.setdefault(key, [])
        watchers.append(tell)

        def end() -> None:
            if tell in watchers:
                watchers.remove(tell)

        return end

    def encoded(self, thing: Object, api_version: str = "") -> bytes:
        """An object as JSON, in the version that it is asked in; each is encoded once."""
        cached = (int(thing["metadata"]["resourceVersion"]), api_version)
        data = self._json.get(cached)
        if data is None:
            shown = {**thing, "apiVersion": api_version} if api_version else thing
            data = self._json[cached] = json.dumps(shown, separators=(",", ":")).encode()
            if len(self._json) > 2 * _KEPT:
                del self._json[next(iter(self._json))]
        return data

    def _write(self, key: str, kind: str, before: Object | None, after: Object) -> Object:
        self.version += 1
        meta = after["metadata"]
        meta["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self._objects.setdefault(key, {})[meta.get("namespace", ""), meta["name"]] = after
        if len(self._log) == _KEPT:
            self.oldest = self._log[0].version
        change = Change(self.version, key, kind, before, after)
        self._log.append(change)
        for tell in tuple(self._watchers.get(key, ())):
            tell(change)
        return after
