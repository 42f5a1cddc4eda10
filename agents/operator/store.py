"""What the operator knows of the objects of one kind: from lists and watches, and from the answers to its own writes.

The two sources come in any order, so an object is replaced only by a newer one: resourceVersions of one kind are
compared as integers (KEP-5504 makes that a promise; etcd's revisions always were). What was seen deleted stays
deleted, however late an answer or an event that still knows it comes in.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from agents.operator.trim import JOB_UID, trim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agents.operator.kinds import Kind

Body = dict[str, Any]
Name = tuple[str, str]  # namespace and name

_DELETED_KEPT_S = 300.0  # longer than any answer can take


class Store:
    """The objects of one kind, trimmed. `on_change(before, after)` is told of each change of more than the version."""

    def __init__(self, kind: Kind, clock: Callable[[], float] = time.monotonic) -> None:
        self.kind = kind
        self.on_change: Callable[[Body | None, Body | None], None] = lambda _before, _after: None
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[Name, Body] = {}
        self._by_job: dict[str, dict[Name, Body]] = {}
        self._deleted: OrderedDict[str, float] = OrderedDict()  # uid → when

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Body | None:
        """Return the object of this name."""
        return self._objects.get((namespace, name))

    def all(self) -> list[Body]:
        """Return all objects."""
        with self._lock:
            return list(self._objects.values())

    def of_job(self, uid: str) -> list[Body]:
        """Return the objects that carry a job's uid as a label, or the job itself."""
        with self._lock:
            return list(self._by_job.get(uid, {}).values())

    def put(self, body: Body) -> Body:
        """Take in an object as the API server has just shown it; return it trimmed."""
        after = trim(self.kind, body)
        with self._lock:
            changed, before = self._take(after)
        if changed:
            self.on_change(before, after)
        return after

    def remove(self, body: Body) -> None:
        """Take in that this object is gone."""
        metadata = body["metadata"]
        with self._lock:
            before = self._drop(_name(metadata), metadata.get("uid", ""))
        if before is not None:
            self.on_change(before, None)

    def mark_deleted(self, bodies: Iterable[Body], at: str) -> None:
        """Take in that these objects are being deleted, before the API says so of each."""
        changes = []
        with self._lock:
            for body in bodies:
                name = _name(body["metadata"])
                before = self._objects.get(name)
                if before is None or _uid(before) != _uid(body) or "deletionTimestamp" in before["metadata"]:
                    continue
                after = {**before, "metadata": {**before["metadata"], "deletionTimestamp": at}}
                self._objects[name] = self._by_job[self._job(after)][name] = after
                changes.append((before, after))
        for before, after in changes:
            self.on_change(before, after)

    def replace(self, bodies: Iterable[Body], version: str, namespace: str | None = None) -> None:
        """Take in a whole list (of a namespace): what it lacks is gone, unless it is newer than the list."""
        listed = [trim(self.kind, body) for body in bodies]
        present = {body["metadata"].get("uid", "") for body in listed}
        changes: list[tuple[Body | None, Body | None]] = []
        with self._lock:
            for name, body in list(self._objects.items()):
                here = namespace is None or name[0] == namespace
                if here and _uid(body) not in present and _version(body) <= int(version):
                    changes.append((self._drop(name, _uid(body)), None))
            for after in listed:
                changed, before = self._take(after)
                if changed:
                    changes.append((before, after))
        for before, after_ in changes:
            self.on_change(before, after_)

    def _take(self, after: Body) -> tuple[bool, Body | None]:
        """Whether there is more to tell than a new version, and what was there before."""
        name, uid = _name(after["metadata"]), _uid(after)
        before = self._objects.get(name)
        if uid in self._deleted or (before is not None and _version(after) <= _version(before)):
            return False, before
        if before is not None and self._job(before) != self._job(after):
            self._unindex(name, before)
        self._objects[name] = after
        if job := self._job(after):
            self._by_job.setdefault(job, {})[name] = after
        return before is None or not _same(before, after), before

    def _drop(self, name: Name, uid: str) -> Body | None:
        now = self._clock()
        self._deleted[uid] = now
        self._deleted.move_to_end(uid)
        while self._deleted and now - next(iter(self._deleted.values())) > _DELETED_KEPT_S:
            self._deleted.popitem(last=False)
        before = self._objects.get(name)
        if before is None or _uid(before) != uid:
            return None
        del self._objects[name]
        self._unindex(name, before)
        return before

    def _job(self, body: Body) -> str:
        """The uid of the job that an object is of."""
        return (
            _uid(body) if self.kind.name == "MPIJob" else str((body["metadata"].get("labels") or {}).get(JOB_UID, ""))
        )

    def _unindex(self, name: Name, body: Body) -> None:
        job = self._job(body)
        objects = self._by_job.get(job)
        if objects is not None:
            objects.pop(name, None)
            if not objects:
                del self._by_job[job]


def _name(metadata: Body) -> Name:
    return metadata.get("namespace", ""), metadata["name"]


def _uid(body: Body) -> str:
    return str(body["metadata"].get("uid", ""))


def _version(body: Body) -> int:
    return int(body["metadata"].get("resourceVersion") or 0)


def _same(before: Body, after: Body) -> bool:
    """Whether two differ in nothing but what every write changes."""
    unlike = {"metadata"}
    if before.keys() != after.keys() or any(before[key] != after[key] for key in after.keys() - unlike):
        return False
    return _lasting(before["metadata"]) == _lasting(after["metadata"])


def _lasting(metadata: Body) -> Body:
    return {name: value for name, value in metadata.items() if name not in {"resourceVersion", "managedFields"}}
