"""A cache of the objects of one kind, filled by lists, watches, and the answers to the operator's own writes.

The two sources come in any order, so an object is replaced only by a newer one: resourceVersions of one kind are
compared as integers (KEP-5504 makes that a promise; etcd's revisions always were). An answer about an object that is
not here, and that is older than what the watch has got to, is about one that is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from agents.job.json_object import Body
from agents.kube.kinds import JOBS, Kind
from agents.operator.trim import job_uid, trim

Name = tuple[str, str]  # namespace and name


class Store:
    """The objects of one kind, trimmed. `on_change(before, after)` is called for each change beyond the version."""

    def __init__(
        self, kind: Kind, on_change: Callable[[Body | None, Body | None], None] = lambda _before, _after: None
    ) -> None:
        self.kind, self._on_change = kind, on_change
        self._lock = threading.Lock()
        self._objects: dict[Name, Body] = {}
        self._by_job: dict[str, dict[Name, Body]] = {}
        self._deleted: dict[str, str] = {}  # uids that we have deleted, until their namespace's watch reports it too
        self._written: Body = {}  # statuses, by uid, whose writing we have asked for just now
        self._reached: dict[str | None, int] = {}  # how far lists and watches have got: namespace, None for all

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

    def put(self, body: Body, *, notifies: bool = True) -> Body:
        """Store an object from the API server's answer; return it trimmed. `notifies`: whether to call on_change."""
        after = trim(self.kind, body)
        name = _name(after["metadata"])
        with self._lock:
            reached = max(self._reached.get(name[0], 0), self._reached.get(None, 0))
            is_gone = name not in self._objects and _version(after) <= reached
            changed, before = (False, None) if is_gone else self._take(name, after)
        if changed and notifies:
            self._on_change(before, after)
        return after

    @contextmanager
    def writing(self, uid: str, status: Any) -> Iterator[None]:
        """Take it for no news if the watch brings this status of an object before the answer to its writing comes."""
        with self._lock:
            self._written[uid] = status
        try:
            yield
        finally:
            with self._lock:
                del self._written[uid]

    def remove(self, namespace: str, name: str, uid: str) -> None:
        """Take in that the API server has deleted an object for us."""
        with self._lock:
            before = self._drop((namespace, name), uid)
            if before is not None:  # else the watch was quicker, and says no more of it
                self._deleted[uid] = namespace
        if before is not None:
            self._on_change(before, None)

    def event(self, kind: str, body: Body, namespace: str | None = None) -> None:
        """Take in a watch's event (ADDED, MODIFIED, DELETED or BOOKMARK), of the watch of a namespace or all."""
        before: Body | None = None
        after: Body | None = None
        changed = False
        with self._lock:
            self._reached[namespace] = version = _version(body)
            if kind == "DELETED":
                name = _name(body["metadata"])
                self._deleted.pop(_uid(body), None)
                if name in self._objects and _version(self._objects[name]) <= version:
                    before = self._drop(name, _uid(body))
                    changed = before is not None
            elif kind != "BOOKMARK":
                after = trim(self.kind, body)
                changed, before = self._take(_name(after["metadata"]), after)
                changed = changed and not self._is_echo(before, after)
        if changed:
            self._on_change(before, after)

    def mark_deleted(self, bodies: Iterable[Body], at: str) -> None:
        """Mark these objects as being deleted, before the API reports it for each."""
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
            self._on_change(before, after)

    def replace(self, bodies: Iterable[Body], version: str, namespace: str | None = None) -> None:
        """Take in a whole list (of a namespace): what is not in it is gone, unless it is newer than the list."""
        listed = [trim(self.kind, body) for body in bodies]
        present = {_uid(body) for body in listed}
        changes: list[tuple[Body | None, Body | None]] = []
        with self._lock:
            self._reached[namespace] = int(version)
            for uid, of in list(self._deleted.items()):
                if namespace in {None, of} and uid not in present:
                    del self._deleted[uid]
            for name, before in list(self._objects.items()):
                if namespace in {None, name[0]} and _uid(before) not in present and _version(before) <= int(version):
                    changes.append((self._drop(name, _uid(before)), None))
            for after in listed:
                changed, earlier = self._take(_name(after["metadata"]), after)
                if changed:
                    changes.append((earlier, after))
        for one, other in changes:
            self._on_change(one, other)

    def _take(self, name: Name, after: Body) -> tuple[bool, Body | None]:
        """Return whether more than the version has changed, and what was there before."""
        before = self._objects.get(name)
        if _uid(after) in self._deleted or (before is not None and _version(after) <= _version(before)):
            return False, before
        if before is not None and self._job(before) != self._job(after):
            self._unindex(name, before)
        self._objects[name] = after
        if job := self._job(after):
            self._by_job.setdefault(job, {})[name] = after
        return before is None or not _same(before, after), before

    def _is_echo(self, before: Body | None, after: Body) -> bool:
        """Whether nothing has changed but the status, to what we are writing."""
        uid = _uid(after)
        return before is not None and uid in self._written and _same(before | {"status": self._written[uid]}, after)

    def _drop(self, name: Name, uid: str) -> Body | None:
        before = self._objects.get(name)
        if before is None or _uid(before) != uid:
            return None
        del self._objects[name]
        self._unindex(name, before)
        return before

    def _job(self, body: Body) -> str:
        """The uid of the job that an object is of."""
        return _uid(body) if self.kind.name in JOBS else job_uid(body)

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
    unlike = {"metadata", "status"}
    if before.keys() != after.keys() or any(before[key] != after[key] for key in after.keys() - unlike):
        return False
    return _said(before) == _said(after) and _lasting(before["metadata"]) == _lasting(after["metadata"])


def _said(body: Body) -> Any:
    """A status without the time of its writing: else each rejected try would bring the next one at once."""
    status = body.get("status")
    if not isinstance(status, dict):
        return status
    return {name: value for name, value in status.items() if name != "lastReconcileTime"}


def _lasting(metadata: Body) -> Body:
    return {name: value for name, value in metadata.items() if name not in {"resourceVersion", "managedFields"}}
