"""The garbage collector: what belongs to an object that is gone goes too, in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop
    from .store import Change, Store

Object = dict[str, Any]
_SOON_S = 0.05  # a real one takes a second or so


class Collector:
    """Looks at each object that comes with owners, and at what an object that goes has owned."""

    def __init__(self, loop: Loop, store: Store, remove: Callable[[str, Object], object]) -> None:
        self._loop = loop
        self._store = store
        self._remove = remove
        self._uids: set[str] = {thing["metadata"]["uid"] for _key, thing in store.everything()}
        self._due = False
        for resource in RESOURCES:
            store.subscribe(resource.key, self._tell)

    def _tell(self, change: Change) -> None:
        uid = change.after["metadata"]["uid"]
        if change.kind == "DELETED":
            self._uids.discard(uid)
        elif change.kind == "ADDED":
            self._uids.add(uid)
            if not change.after["metadata"].get("ownerReferences"):
                return
        else:
            return
        if not self._due:
            self._due = True
            self._loop.call_later(_SOON_S, self._collect)

    def _collect(self) -> None:
        self._due = False
        for key, thing in self._store.everything():
            owners = thing["metadata"].get("ownerReferences") or ()
            is_orphan = bool(owners) and not any(owner.get("uid") in self._uids for owner in owners)
            if is_orphan and "deletionTimestamp" not in thing["metadata"]:
                self._remove(key, thing)
