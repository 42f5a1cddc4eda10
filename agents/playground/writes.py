"""What the API server makes of a write: a new object, a changed one, or a refusal. Pure.

What it does not do: schemas, defaults other than those that a job's meaning depends on, server-side apply, and which
fields a manager owns (`managedFields` tells who wrote, when and by which version, without the fields).
"""

from __future__ import annotations

import copy
import re
import secrets
import uuid
from typing import TYPE_CHECKING, Any

from . import pods, statuses
from .resources import MPI_JOBS, PODS

if TYPE_CHECKING:
    from .resources import Target

Object = dict[str, Any]

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields")


class RefusedError(Exception):
    """The write is not taken; `status` is the API server's answer."""

    def __init__(self, status: statuses.Status) -> None:
        super().__init__(status["message"])
        self.status = status


def created(target: Target, body: Object, manager: str) -> Object:
    """The object that a create makes. Raises RefusedError."""
    resource = target.resource
    _check_body(target, body)
    thing = copy.deepcopy(body)
    meta = thing.setdefault("metadata", {})
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = f"{meta['generateName']}{secrets.token_hex(3)[:5]}"
    name = str(meta.get("name", ""))
    if not _NAME.match(name):
        raise RefusedError(statuses.invalid(resource.kind, resource.group, name, "metadata.name: a DNS-1123 subdomain"))
    if resource.namespaced:
        if meta.setdefault("namespace", target.namespace) != target.namespace:
            words = "the namespace of the provided object does not match the namespace sent on the request"
            raise RefusedError(statuses.failure(400, words))
    else:
        meta.pop("namespace", None)
    for field in (*_KEPT, "resourceVersion", "selfLink"):
        meta.pop(field, None)
    meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": pods.timestamp()}
    if resource.counts_generations:
        meta["generation"] = 1
    if resource.has_status:
        thing.pop("status", None)
    thing |= {"apiVersion": resource.api_version(resource.versions[0]), "kind": resource.kind}
    if resource is MPI_JOBS:  # as each version's schema has it
        spec = thing.setdefault("spec", {})
        spec.setdefault("dialect", target.version)
    _note_manager(thing, target, manager)
    return thing


def replaced(target: Target, before: Object, body: Object, manager: str) -> Object | None:
    """What a PUT makes of an object, or of its status; None if nothing changes. Raises RefusedError."""
    _check_body(target, body)
    meta = body.get("metadata") or {}
    check_preconditions(target, before, meta)
    after = copy.deepcopy(before)
    if target.subresource == "status":
        after["status"] = copy.deepcopy(body.get("status", {}))
    else:
        status = after.get("status")
        for field in set(after) - {"apiVersion", "kind", "metadata"}:
            del after[field]
        after |= copy.deepcopy({key: value for key, value in body.items() if key not in {"apiVersion", "kind"}})
        _keep_metadata(before, after)
        if target.resource.has_status:
            after.pop("status", None)
            if status is not None:
                after["status"] = status
    return _finished(target, before, after, manager)


def patched(target: Target, before: Object, patch: Object, manager: str) -> Object | None:
    """What a JSON merge patch makes of an object, or of its status; None if nothing changes. Raises RefusedError."""
    check_preconditions(target, before, patch.get("metadata") or {})
    if target.subresource == "status":
        patch = {key: value for key, value in patch.items() if key == "status"}
    elif target.resource.has_status:
        patch = {key: value for key, value in patch.items() if key != "status"}
    after = merged(before, {key: value for key, value in patch.items() if key not in {"apiVersion", "kind"}})
    _keep_metadata(before, after)
    return _finished(target, before, after, manager)


def merged(before: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    after = copy.deepcopy(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after


def check_preconditions(target: Target, before: Object, wanted: Object) -> None:
    """Refuse what was meant for another object of the name, or for an older one. Raises RefusedError."""
    resource, have = target.resource, before["metadata"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != have["uid"]:
        words = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {have['uid']}"
        raise RefusedError(statuses.conflict(resource.key, have["name"], words))
    if version and version != have["resourceVersion"]:
        words = "the object has been modified; please apply your changes to the latest version and try again"
        raise RefusedError(statuses.conflict(resource.key, have["name"], words))


def _check_body(target: Target, body: Object) -> None:
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise RefusedError(statuses.failure(400, "the body is no object"))
    said = (body.get("apiVersion", target.api_version), body.get("kind", target.resource.kind))
    if said != (target.api_version, target.resource.kind):
        wanted = f"{target.api_version} {target.resource.kind}"
        raise RefusedError(statuses.failure(400, f"the object provided is {' '.join(said)}, not {wanted}"))
    if target.resource is PODS and not target.subresource:
        wrong = pods.fault(body)
        if wrong:
            name = str(body.get("metadata", {}).get("name", ""))
            raise RefusedError(statuses.invalid("Pod", "", name, wrong))


def _keep_metadata(before: Object, after: Object) -> None:
    """Fields that no client writes stay as they are; so do name and namespace."""
    have, meta = before["metadata"], after["metadata"]
    for field in (*_KEPT, "name", "namespace", "resourceVersion"):
        meta.pop(field, None)
        if field in have:
            meta[field] = copy.deepcopy(have[field])


def _finished(target: Target, before: Object, after: Object, manager: str) -> Object | None:
    if after == before:
        return None
    if target.resource.counts_generations and after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
    _note_manager(after, target, manager)
    return after


def _note_manager(thing: Object, target: Target, manager: str) -> None:
    entry = {"manager": manager, "operation": "Update", "apiVersion": target.api_version}
    if target.subresource:
        entry["subresource"] = target.subresource
    others = [one for one in thing["metadata"].get("managedFields", ()) if not entry.items() <= one.items()]
    noted = {**entry, "time": pods.timestamp(), "fieldsType": "FieldsV1", "fieldsV1": {}}
    thing["metadata"]["managedFields"] = [*others, noted]
