"""An API server in a dictionary, as far as the operator's executor asks: uids, versions, conflicts, watches, graceful
deletion. It is called as `agents.operator.api.Api` is, and shares nothing else with it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agents.operator.errors import AlreadyExistsError, ConflictError, NotFoundError, RefusedError

if TYPE_CHECKING:
    from agents.operator.kinds import Kind

Body = dict[str, Any]
Key = tuple[str, str]  # plural and name: all is in one namespace

NAMESPACE = "default"
GRACE_S = 30


@dataclass(frozen=True)
class Seen:
    """A watch event: an object as it was then, or that it is gone."""

    kind: str
    body: Body
    is_gone: bool


class SimulatedApi:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.objects: dict[Key, Body] = {}
        self.log: list[Seen] = []
        self.quota = 10**6  # how many objects may still be made before creations are refused
        self.refusal = 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3'
        self.requests: list[tuple[str, str]] = []
        self._version = 100
        self._uids = 0

    # What the executor calls.

    def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        name = body["metadata"]["name"]
        self.requests.append(("create", f"{kind.name} {name}"))
        assert namespace == NAMESPACE
        if (kind.plural, name) in self.objects:
            raise AlreadyExistsError(f'{kind.plural} "{name}" already exists', 409, "AlreadyExists")
        if self.quota <= 0 and kind.name in ("Pod", "Job"):
            raise RefusedError(self.refusal, 403, "Forbidden")
        self.quota -= 1
        return self.add(kind.plural, {**copy.deepcopy(body), "apiVersion": kind.api_version, "kind": kind.name})

    def get(self, path: str) -> Body:
        self.requests.append(("get", path))
        return copy.deepcopy(self._at(path))

    def replace(self, path: str, body: Body) -> Body:
        """Replace a status: nothing else is replaced."""
        self.requests.append(("update", path))
        assert path.endswith("/status")
        found = self._at(path.removesuffix("/status"))
        self._check(found, body["metadata"])
        found["status"] = copy.deepcopy(body["status"])
        wrote = {"manager": "mpi-agents", "operation": "Update", "apiVersion": "v2", "subresource": "status"}
        found["metadata"]["managedFields"] = [wrote]
        return self.changed("mpijobs", found)

    def patch(self, path: str, body: Body) -> Body:
        self.requests.append(("patch", path))
        found = self._at(path)
        self._check(found, body["metadata"])
        for part, value in body.items():
            if part == "metadata":
                found["metadata"].setdefault("annotations", {}).update(value.get("annotations", {}))
            else:
                found[part] = _merged(found.get(part), copy.deepcopy(value))
        return self.changed(path.split("/")[-2], found)

    def delete(self, path: str, uid: str, *, waits: bool = False) -> Body:
        self.requests.append(("delete", path))
        found = self._at(path)
        if found["metadata"]["uid"] != uid:
            raise ConflictError(f"the UID in the precondition ({uid}) does not match", 409, "Conflict")
        return self.remove(path.split("/")[-2], found, waits=waits) or {"kind": "Status"}

    def delete_collection(self, path: str, selector: str) -> Body:
        self.requests.append(("deletecollection", path))
        wanted = dict(pair.split("=") for pair in selector.split(","))
        for body in self.all(path.rsplit("/", maxsplit=1)[-1]):
            if wanted.items() <= (body["metadata"].get("labels") or {}).items():
                self.remove(path.rsplit("/", maxsplit=1)[-1], body)
        return {"kind": "PodList", "items": []}

    # What users and the cluster's own controllers do.

    def add(self, plural: str, body: Body) -> Body:
        metadata = body["metadata"]
        self._uids += 1
        metadata["uid"] = f"uid-{self._uids}"
        metadata["namespace"] = NAMESPACE
        metadata["creationTimestamp"] = self.clock()
        if plural == "pods":
            body.setdefault("status", {"phase": "Pending"})
        self.objects[plural, metadata["name"]] = body
        return self.changed(plural, body)

    def changed(self, plural: str, body: Body) -> Body:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.log.append(Seen(plural, copy.deepcopy(body), is_gone=False))
        return copy.deepcopy(body)

    def remove(self, plural: str, body: Body, *, waits: bool = False) -> Body | None:
        """Delete an object: a pod on a node, and a Job that waits for its pods, are there for a while."""
        status = body.get("status", {})
        stays = plural == "pods" and status.get("phase") in ("Pending", "Running") and status.get("podIP")
        if not (stays or waits):
            self.drop(plural, body)
            return None
        if "deletionTimestamp" not in body["metadata"]:
            body["metadata"]["deletionTimestamp"] = self.clock(GRACE_S if stays else 0)
            return self.changed(plural, body)
        return copy.deepcopy(body)

    def drop(self, plural: str, body: Body) -> None:
        """Take an object away at last."""
        found = self.objects.get((plural, body["metadata"]["name"]))
        if found is None or found["metadata"]["uid"] != body["metadata"]["uid"]:
            return
        del self.objects[plural, body["metadata"]["name"]]
        self._version += 1
        gone = copy.deepcopy(body)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self.log.append(Seen(plural, gone, is_gone=True))

    def all(self, plural: str) -> list[Body]:
        return [body for (kind, _name), body in sorted(self.objects.items()) if kind == plural]

    def find(self, plural: str, name: str) -> Body | None:
        return self.objects.get((plural, name))

    def clock(self, later_s: float = 0) -> str:
        return datetime.fromtimestamp(int(self.now + later_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _at(self, path: str) -> Body:
        plural, name = path.split("/")[-2:]
        found = self.objects.get((plural, name))
        if found is None:
            raise NotFoundError(f'{plural} "{name}" not found', 404, "NotFound")
        assert plural != "mpijobs" or f"/{found['apiVersion']}/" in path
        return found

    def _check(self, found: Body, metadata: Body) -> None:
        for field in ("uid", "resourceVersion"):
            if found["metadata"][field] != metadata[field]:
                raise ConflictError("the object has been modified", 409, "Conflict")


def _merged(before: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396), which leaves what it does not name."""
    if not isinstance(before, dict) or not isinstance(patch, dict):
        return patch
    after = {**before, **{name: _merged(before.get(name), value) for name, value in patch.items()}}
    return {name: value for name, value in after.items() if value is not None}
