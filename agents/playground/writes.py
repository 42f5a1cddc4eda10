"""What the API server makes of a write: a new object, a changed one, or a refusal. No I/O.

What it does not do: defaults other than those that a job's meaning depends on, and which fields a manager owns
(`managedFields` tells who wrote, when and by which version, without the fields): an apply is a merge.

Bodies come from JSON and are ours: new versions share their parts with them and with the old ones.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any

from . import definitions, pods, statuses
from .resources import MPI_JOBS, PODS

if TYPE_CHECKING:
    from .resources import Target
    from .store import Store

Object = dict[str, Any]

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields")


class RefusedError(Exception):
    """The write is not taken; `status` is the API server's answer."""

    def __init__(self, status: statuses.Status) -> None:
        super().__init__(status["message"])
        self.status = status


def created(store: Store, target: Target, body: Object, manager: str) -> Object:
    """The object that a create makes. Raises RefusedError."""
    resource = target.resource
    _check_body(target, body)
    meta = body.get("metadata") or {}
    if not meta.get("name") and meta.get("generateName"):
        meta = {**meta, "name": f"{meta['generateName']}{secrets.token_hex(3)[:5]}"}
    name = str(meta.get("name", ""))
    if not _NAME.match(name):
        raise RefusedError(statuses.invalid(resource.kind, resource.group, name, "metadata.name: a DNS-1123 subdomain"))
    if resource.namespaced and meta.get("namespace", target.namespace) != target.namespace:
        words = "the namespace of the provided object does not match the namespace sent on the request"
        raise RefusedError(statuses.failure(400, words))
    if "status" in resource.parts:
        body = {field: value for field, value in body.items() if field != "status"}
    return stamped(store, target, {**body, "metadata": meta}, manager)


def stamped(store: Store, target: Target, body: Object, manager: str) -> Object:
    """A new object with the metadata that the API server gives it."""
    resource = target.resource
    dropped = (*_KEPT, "namespace", "resourceVersion", "selfLink")
    meta = {field: value for field, value in body["metadata"].items() if field not in dropped}
    if resource.namespaced:
        meta["namespace"] = target.namespace
    meta |= {"uid": store.new_uid(), "creationTimestamp": store.timestamp()}
    if resource.counts_generations:
        meta["generation"] = 1
    thing = {**body, "metadata": meta, "apiVersion": resource.api_version(resource.versions[0]), "kind": resource.kind}
    if resource is MPI_JOBS:  # as each version's schema has it
        thing["spec"] = {"dialect": target.version, **thing.get("spec", {})}
    _note_manager(store, thing, target, manager)
    return thing


def replaced(store: Store, target: Target, before: Object, body: Object, manager: str) -> Object | None:
    """What a PUT makes of an object, or of its status; None if nothing changes. Raises RefusedError."""
    _check_body(target, body)
    check_preconditions(target, before, body.get("metadata") or {})
    if target.subresource == "status":
        after = {**before, "status": body.get("status", {})}
    else:
        after = {**body, "apiVersion": before["apiVersion"], "kind": before["kind"]}
        if "status" in target.resource.parts:
            after.pop("status", None)
            after |= {"status": before["status"]} if "status" in before else {}
    return _finished(store, target, before, after, manager)


def patched(store: Store, target: Target, before: Object, patch: Object, manager: str) -> Object | None:
    """What a JSON merge patch makes of an object, or of its status; None if nothing changes. Raises RefusedError."""
    check_preconditions(target, before, patch.get("metadata") or {})
    if target.subresource == "status":
        patch = {key: value for key, value in patch.items() if key == "status"}
    elif "status" in target.resource.parts:
        patch = {key: value for key, value in patch.items() if key != "status"}
    after = merged(before, {key: value for key, value in patch.items() if key not in {"apiVersion", "kind"}})
    return _finished(store, target, before, after, manager)


def merged(before: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
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


def check_fields(target: Target, thing: Object, asked: str) -> None:
    """Refuse what the kind's definition does not allow, if the client asks for it (fieldValidation), as kubectl does.

    Raises RefusedError.
    """
    resource = target.resource
    schema = definitions.schemas().get((resource.group, target.version, resource.kind)) if asked else None
    if schema is None or target.subresource:
        return
    fields = definitions.unknown(schema, thing) if asked == "Strict" else []
    if fields:
        words = ", ".join(f'unknown field "{one}"' for one in fields)
        kind = f'{resource.kind} in version "{target.version}" cannot be handled as a {resource.kind}'
        raise RefusedError(statuses.failure(400, f"{kind}: strict decoding error: {words}"))
    if wrong := definitions.problems(schema, thing):
        raise RefusedError(statuses.invalid(resource.kind, resource.group, thing["metadata"]["name"], *wrong))


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


def _finished(store: Store, target: Target, before: Object, after: Object, manager: str) -> Object | None:
    """Fields that no client writes stay as they are; so do name and namespace."""
    fixed = (*_KEPT, "name", "namespace", "resourceVersion")
    have = before["metadata"]
    is_status = target.subresource == "status"
    given = have if is_status else after.get("metadata") or {}
    meta = {field: value for field, value in given.items() if field not in fixed}
    after["metadata"] = meta | {field: have[field] for field in fixed if field in have}
    if after == before:
        return None
    if target.resource.counts_generations and after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] = have.get("generation", 1) + 1
    _note_manager(store, after, target, manager)
    return after


def _note_manager(store: Store, thing: Object, target: Target, manager: str) -> None:
    entry = {"manager": manager, "operation": "Update", "apiVersion": target.api_version}
    if target.subresource:
        entry["subresource"] = target.subresource
    others = [one for one in thing["metadata"].get("managedFields", ()) if not entry.items() <= one.items()]
    noted = {**entry, "time": store.timestamp(), "fieldsType": "FieldsV1", "fieldsV1": {}}
    thing["metadata"]["managedFields"] = [*others, noted]
