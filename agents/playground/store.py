"""All objects of the cluster, their versions, and the log of changes that watches read. No I/O."""

from __future__ import annotations

import bisect
import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Object = dict[str, Any]
_encode = json.JSONEncoder(separators=(",", ":")).encode
_KEPT = 4096  # changes at least; a watch that asks for an older version gets 410


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
    """Objects by kind, namespace and name. Each write gets the next resourceVersion; versions may share their parts."""

    def __init__(
        self, clock: Callable[[], float] = time.time, new_uid: Callable[[], str] = lambda: str(uuid.uuid4())
    ) -> None:
        self.version = 1000
        self.oldest = 1000  # the version that the log reaches back to
        self.new_uid = new_uid
        self._clock = clock
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self._watchers: dict[str, list[Callable[[Change], None]]] = {}
        self._log: list[Change] = []
        self._json: dict[tuple[int, str], bytes] = {}

    def timestamp(self, later_s: float = 0.0) -> str:
        """The time now or later, in RFC 3339."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(self._clock() + later_s)))

    def get(self, key: str, namespace: str, name: str) -> Object | None:
        """An object, not to be changed; None if there is none."""
        return self._objects.get(key, {}).get((namespace, name))

    def all(self, key: str, namespace: str | None = None) -> list[Object]:
        """The objects of a kind in a namespace (None: in all), in the API's order."""
        found = sorted(self._objects.get(key, {}).items())
        return [thing for where, thing in found if namespace is None or where[0] == namespace]

    def everything(self) -> list[tuple[str, Object]]:
        """All objects, each with its kind's key."""
        return [(key, thing) for key, things in self._objects.items() for thing in things.values()]

    def create(self, key: str, thing: Object) -> Object:
        """Add an object, which the store then owns. Raises ExistsError."""
        name = thing["metadata"]["name"]
        if (thing["metadata"].get("namespace", ""), name) in self._objects.get(key, {}):
            raise ExistsError(name)
        return self._write(key, "ADDED", None, thing)

    def replace(self, key: str, thing: Object) -> Object:
        """Write a new version of an object; what was not changed may be shared with the old one. Raises KeyError."""
        meta = thing["metadata"]
        before = self._objects.get(key, {})[meta.get("namespace", ""), meta["name"]]
        return self._write(key, "MODIFIED", before, {**thing, "metadata": {**meta}})

    def delete(self, key: str, namespace: str, name: str) -> Object:
        """Remove an object. Raises KeyError."""
        before = self._objects.get(key, {}).pop((namespace, name))
        return self._write(key, "DELETED", before, {**before, "metadata": {**before["metadata"]}})

    def since(self, key: str, version: int) -> Sequence[Change]:
        """The changes of a kind after a version that is not older than `oldest`."""
        begin = bisect.bisect_right(self._log, version, key=lambda change: change.version)
        return [change for change in self._log[begin:] if change.key == key]

    def forget(self) -> None:
        """Give every watch from an earlier version 410 from now on, as after etcd's compaction."""
        self.version += 1
        self.oldest = self.version

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
            data = self._json[cached] = _encode(shown).encode()
            if len(self._json) > 2 * _KEPT:
                del self._json[next(iter(self._json))]
        return data

    def _write(self, key: str, kind: str, before: Object | None, after: Object) -> Object:
        self.version += 1
        meta = after["metadata"]
        meta["resourceVersion"] = str(self.version)
        if kind != "DELETED":
            self._objects.setdefault(key, {})[meta.get("namespace", ""), meta["name"]] = after
        change = Change(self.version, key, kind, before, after)
        self._log.append(change)
        if len(self._log) > 2 * _KEPT:
            self.oldest = max(self.oldest, self._log[_KEPT - 1].version)
            del self._log[:_KEPT]
        for tell in tuple(self._watchers.get(key, ())):
            tell(change)
        return after
