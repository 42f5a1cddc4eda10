"""How objects go: with finalizers, with a grace period, with what they own. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .store import Store

Object = dict[str, Any]

_GRACE_S = 30.0  # of a pod that says nothing else
_FOREGROUND = "foregroundDeletion"  # the finalizer of an object that waits for what it owns


class Deletion:
    """Deletes objects of a store. `end_pod` deletes a pod that runs, in so many seconds."""

    def __init__(self, store: Store, end_pod: Callable[[Object, float], None] | None) -> None:
        self._store = store
        self._end_pod = end_pod

    def write(self, key: str, before: Object, after: Object) -> Object:
        """Write a new version; what is deleted goes with its last finalizer."""
        meta, written = after["metadata"], self._store.replace(key, after)
        is_released = (
            "deletionTimestamp" in meta and before["metadata"].get("finalizers") and not meta.get("finalizers")
        )
        if is_released and not meta.get("deletionGracePeriodSeconds"):
            self._store.delete(key, meta.get("namespace", ""), meta["name"])
        return written

    def remove(self, key: str, thing: Object, grace_s: float | None = None, propagation: str = "") -> Object | None:
        """Delete an object; it is returned if it is still there, as with finalizers, or a pod until it has ended."""
        meta = thing["metadata"]
        if propagation == "Orphan":
            self._orphan(meta["uid"])
        if key == PODS.key:
            grace_s = (
                float(thing["spec"].get("terminationGracePeriodSeconds", _GRACE_S)) if grace_s is None else grace_s
            )
            if self._end_pod is not None:
                self._end_pod(thing, grace_s)
                return self._store.get(key, meta["namespace"], meta["name"])
            has_ended = thing.get("status", {}).get("phase") in {"Succeeded", "Failed"}
            grace_s = grace_s if thing["spec"].get("nodeName") and not has_ended else 0.0
        else:
            grace_s = 0.0
        finalizers = meta.get("finalizers") or []
        if propagation == "Foreground" and _FOREGROUND not in finalizers:
            finalizers = [*finalizers, _FOREGROUND]
        if not grace_s and not finalizers:
            self._store.delete(key, meta.get("namespace", ""), meta["name"])
            return None
        by, was = self._store.timestamp(grace_s), meta.get("deletionTimestamp")
        if was and was <= by and finalizers == (meta.get("finalizers") or []):  # it can only be brought forward
            return thing
        marked = {"deletionTimestamp": min(was or by, by), "deletionGracePeriodSeconds": int(grace_s)}
        marked |= {"finalizers": finalizers} if finalizers else {}
        return self._store.replace(key, {**thing, "metadata": {**meta, **marked}})

    def collect(self, others: Collection[str] = ()) -> None:
        """Collect garbage: what has no owner any more, and what waits in the foreground for what it owns.

        `others`: uids of owners that are there, but not here.
        """
        things = self._store.everything()
        uids = {thing["metadata"]["uid"] for _, thing in things}.union(others)
        for key, thing in things:
            owners = _owners(thing)
            if owners and uids.isdisjoint(owners) and "deletionTimestamp" not in thing["metadata"]:
                self.remove(key, thing)
        for key, thing in things:
            if _FOREGROUND in (thing["metadata"].get("finalizers") or ()):
                self._collect_owned(key, thing)

    def _collect_owned(self, key: str, thing: Object) -> None:
        meta = thing["metadata"]
        owned = [(its, one) for its, one in self._store.everything() if meta["uid"] in _owners(one)]
        for its, one in owned:
            if "deletionTimestamp" not in one["metadata"]:
                self.remove(its, one)
        if not owned:
            rest = [one for one in meta["finalizers"] if one != _FOREGROUND]
            self.write(key, thing, {**thing, "metadata": {**meta, "finalizers": rest}})

    def _orphan(self, uid: str) -> None:
        for key, thing in self._store.everything():
            if uid in _owners(thing):
                rest = [owner for owner in thing["metadata"]["ownerReferences"] if owner.get("uid") != uid]
                self._store.replace(key, {**thing, "metadata": {**thing["metadata"], "ownerReferences": rest}})


def _owners(thing: Object) -> set[str]:
    return {str(owner.get("uid")) for owner in thing["metadata"].get("ownerReferences") or ()}
