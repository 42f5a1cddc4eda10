"""The playground's store of objects, for tests that run no pods: what users and the cluster's controllers do to it.

Kinds go by their plurals; T9k's MPIJobs have their group behind it. Whoever reads an object may keep it.
"""

from __future__ import annotations

import copy
import itertools
import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.playground import selector, statuses, table, writes
from agents.playground.resources import MPI_JOBS, PODS, Resource, Target
from agents.playground.resources import RESOURCES as SERVED
from agents.playground.rest import ObjectApi
from agents.playground.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.playground.access import User
    from agents.playground.rest import Call, Response
    from agents.playground.watch import Watch

Body = dict[str, Any]
Place = tuple[str, str, str]  # plural, namespace, name

T9K = "batch.tensorstack.dev"
_WHOLE = {"conditions", "replicaStatuses"}  # of a status, by training-operator's definition


class _PodGroup(Resource):
    @property
    def key(self) -> str:
        """The same for each scheduler's."""
        return self.plural


_SCHEDULERS = {
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.x-k8s.io": "v1alpha1",
    "scheduler.tensorstack.dev": "v1beta1",
}
RESOURCES = (
    *SERVED,
    *(_PodGroup("podgroups", "PodGroup", group, (version,)) for group, version in _SCHEDULERS.items()),
)
_KEYS = {one.plural: one.key for one in reversed(RESOURCES)}  # kubeflow's MPIJobs come first
_PLURALS = {key: plural for plural, key in _KEYS.items()}


class Failure(writes.RefusedError):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str = "", retry_after: str = "") -> None:
        super().__init__(statuses.failure(code, message or reason, reason=reason))
        self.retry_after = retry_after


@dataclass(frozen=True)
class Request:
    """A request by what it asks for. `partial`: of objects, their metadata alone."""

    verb: str
    plural: str
    namespace: str
    partial: bool

    @classmethod
    def of(cls, call: Call) -> Request:
        assert call.target is not None
        key, accept = call.target.resource.key, call.request.headers.get("accept", "")
        return cls(call.verb, _PLURALS.get(key, key), call.target.namespace, table.metadata_wanted(accept))


class _Api(ObjectApi):
    def answer(self, call: Call, user: User) -> Response | Watch:
        """Answer as where training-operator's definition of MPIJobs is installed."""
        if call.verb == "update" and call.target is not None and call.target.resource is MPI_JOBS:
            status = json.loads(call.request.body).get("status", _WHOLE)
            if not {*status} >= _WHOLE:
                raise Failure(422, "Invalid", "status.conditions: Required value")
        return super().answer(call, user)


class Objects(Store):
    """All objects, and how often each has been created."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock, map("uid-{}".format, itertools.count(1)).__next__)
        self.api = _Api(self, resources=RESOURCES)
        self.created: Counter[Place] = Counter()
        self._owners: set[str] = set()  # uids of those that are elsewhere

    @property
    def stored(self) -> dict[Place, Body]:
        return {(_PLURALS.get(key, key), *_name_of(body)): body for key, body in self.everything()}

    def add(self, plural: str, namespace: str, body: Body) -> Body:
        """Create an object with its status, whatever it is."""
        key = _KEYS.get(plural, plural)
        resource = next(one for one in RESOURCES if one.key == key)
        version = str(body.get("apiVersion", resource.versions[0])).rpartition("/")[2]
        made = writes.stamped(self, Target(resource, version, namespace, "", ""), copy.deepcopy(body), "user")
        if resource is PODS:
            made = {"status": {"phase": "Pending"}, **made}
        uids = {one["metadata"]["uid"] for _, one in self.everything()}
        self._owners |= {owner["uid"] for owner in made["metadata"].get("ownerReferences", ())} - uids
        return self.create(key, made)

    def at(self, place: Place) -> Body:
        found = self.find(place)
        assert found is not None, f"no {place[0]} {place[2]}"
        return found

    def find(self, place: Place) -> Body | None:
        return self.get(_KEYS.get(place[0], place[0]), *place[1:])

    def select(self, plural: str, namespace: str = "", labels: str = "") -> list[Body]:
        return [*filter(selector.labels(labels), self.all(_KEYS.get(plural, plural), namespace or None))]

    def put(self, plural: str, body: Body, event: str = "MODIFIED") -> Body:
        """Write a new version, or take an object away at once."""
        key = _KEYS.get(plural, plural)
        return self.delete(key, *_name_of(body)) if event == "DELETED" else self.replace(key, body)

    def edit(self, place: Place, change: Callable[[Body], object]) -> None:
        """Change an object as a user does: `change` gets a copy, and nothing is written if nothing changes."""
        before = self.at(place)
        after = copy.deepcopy(before)
        change(after)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        if after != before:
            self.api.deletion.write(_KEYS.get(place[0], place[0]), before, after)

    def remove(self, place: Place, *, waits: bool = False) -> None:
        """Delete an object: one with finalizers, and a pod on a node, are there for a while."""
        self.api.deletion.remove(
            _KEYS.get(place[0], place[0]), self.at(place), propagation="Foreground" if waits else ""
        )

    def end(self, pod: Body) -> None:
        """The kubelet says that a deleted pod has ended."""
        found = self.get(PODS.key, *_name_of(pod))
        if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"]:
            self.put("pods", pod, "DELETED")

    def collect(self) -> None:
        """The garbage collector works."""
        self.api.deletion.collect(self._owners)

    def since_of(self, plural: str, version: int) -> list[int]:
        """The versions of the changes of a kind since one."""
        return [change.version for change in self.since(_KEYS.get(plural, plural), version)]

    def _write(self, key: str, kind: str, before: Body | None, after: Body) -> Body:
        if kind == "ADDED":
            self.created[_PLURALS.get(key, key), *_name_of(after)] += 1
        return super()._write(key, kind, before, after)


def plural_of(job: Body) -> str:
    """How an MPIJob or a VirtualCluster is stored."""
    if job["kind"] == "VirtualCluster":
        return "virtualclusters"
    return f"mpijobs.{T9K}" if job["apiVersion"].startswith(T9K) else "mpijobs"


def place_of(plural: str, body: Body) -> Place:
    return plural, *_name_of(body)


def _name_of(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]
