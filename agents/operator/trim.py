"""Trims objects to what the operator uses: the caches hold thousands, and most fields are never read.

Pure. Parts that are kept as they are belong to the object that was decoded, which nobody else keeps. Of an MPIJob that
is large no more than an `Outline` is kept: decoded, its templates would take ten times their bytes, and any user may
make many such jobs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from agents.job.json_object import Body, mapping, mappings, part
from agents.job.model import LAST_APPLIED, PREFIX
from agents.kube.kinds import JOBS, Kind
from agents.operator.objects.names import CONFIG_VOLUME, JOB_UID, ROLE, SSH_KEYS_VOLUME

_TIMES = ("creationTimestamp", "deletionTimestamp")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "deletionGracePeriodSeconds", *_TIMES)
_OWNER = ("kind", "name", "uid", "controller")
_POD_STATUS = ("phase", "reason", "message", "startTime", "podIP")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER_STATUS = ("name", "ready", "started", "restartCount", "state", "lastState")
_CONTAINERS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OUR_VOLUMES = (SSH_KEYS_VOLUME, CONFIG_VOLUME)  # show how a pod was made
_WRITER = ("manager", "operation", "apiVersion", "subresource")
_LABELS = (JOB_UID, ROLE, "training.kubeflow.org/operator-name")
_MOST = 32  # of what ours has fewer of; what someone adds to a ConfigMap of ours is taken out by as many at a time
LARGE = 8192  # bytes of an MPIJob's metadata and spec as JSON: a larger one is read again when it is planned
_STATUS_MAX = 65536  # bytes of an MPIJob's status as JSON: users can write it
_TEXT_MAX = 1024  # characters of a ConfigMap's text
_OUTLINE = ("name", "namespace", "uid", "resourceVersion", "generation", "managedFields", *_TIMES)


class Outline(Body):
    """A large MPIJob without its templates: its owner, its status, and `rest`, a hash of what is left out."""


def job_uid(body: Body | None) -> str:
    """Return the uid of the job that an object was made for, by its label; "" for none."""
    return str(part(body, "metadata", "labels").get(JOB_UID, ""))


def trim(kind: Kind, body: Body) -> Body:
    """Return what is kept of an object of this kind, as `Observed` has it. It may be anything that the API sends."""
    if kind.name in JOBS:
        return body if isinstance(body, Outline) else _outlined(whole_job(body))
    keep = _KEEP.get(kind.name)
    metadata = part(body, "metadata")
    return {"metadata": _metadata(metadata), **(keep(body) if keep else {})}


def _metadata(metadata: Body) -> Body:
    kept = _picked(metadata, _METADATA)
    owners = kept.get("ownerReferences")
    if owners:
        kept["ownerReferences"] = [_picked(owner, _OWNER) for owner in mappings(owners)[:_MOST]]
    if "labels" in metadata:
        kept["labels"] = _picked(mapping(metadata["labels"]), _LABELS)
    annotations = _ours(metadata.get("annotations"))
    return kept | {"annotations": annotations} if annotations else kept


def _ours(texts: Any) -> Body:
    """Return those labels or annotations whose names are ours."""
    return dict(islice(((name, text) for name, text in mapping(texts).items() if str(name).startswith(PREFIX)), _MOST))


def whole_job(body: Body) -> Body:
    """Return an MPIJob with all that a plan may ask for."""
    metadata = dict(part(body, "metadata"))
    if "managedFields" in metadata:
        metadata["managedFields"] = [_picked(entry, _WRITER) for entry in mappings(metadata["managedFields"])]
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        metadata["annotations"] = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
    return {**body, "metadata": metadata}


def _outlined(body: Body) -> Body:
    """Return a job as it is, or of a large one its outline."""
    metadata, spec, status = body["metadata"], body.get("spec"), _status(body.get("status"))
    lasting = {name: value for name, value in metadata.items() if name not in ("resourceVersion", "managedFields")}
    try:
        text = json.dumps([lasting, spec])
    except RecursionError:  # it is read again whole, and rejected as too deeply nested
        text = " " * LARGE + str(metadata.get("generation"))
    if len(text) <= LARGE and status is body.get("status"):
        return body
    kept = _picked(metadata, _OUTLINE)
    for name in ("labels", "annotations"):
        kept[name] = _ours(metadata.get(name))
    about: Body = _picked(body, ("apiVersion", "kind")) | ({"status": status} if "status" in body else {})
    policy = _picked(mapping(mapping(spec).get("runPolicy")), ("managedBy",))
    return Outline(about, metadata=kept, spec={"runPolicy": policy}, rest=_hash(text))


def written(outline: Outline, metadata: Body, status: Any) -> Outline:
    """Return the outline of a large job whose status has been written; `metadata` is the answer's."""
    fresh = whole_job({"metadata": metadata})["metadata"]
    return Outline(outline, metadata={**outline["metadata"], **_picked(fresh, _OUTLINE)}, status=_status(status))


def _status(status: Any) -> Any:
    """Return a status; of a large one only what shows which operator manages the job, and a hash."""
    try:
        text = json.dumps(status)
    except RecursionError:
        text = " " * _STATUS_MAX + str(len(status))
    if len(text) <= _STATUS_MAX:
        return status
    said = [_picked(one, ("type", "status")) for one in mappings(mapping(status).get("conditions"))[:_MOST]]
    return {"conditions": said, "rest": _hash(text)}


def _pod(body: Body) -> Body:
    spec, status = part(body, "spec"), part(body, "status")
    kept_spec: Body = {
        "containers": [{"name": each.get("name")} for each in mappings(spec.get("containers"))],
        "initContainers": [_picked(each, ("name", "restartPolicy")) for each in mappings(spec.get("initContainers"))],
    }
    kept_spec |= _volumes(spec)
    if spec.get("nodeName"):
        kept_spec["nodeName"] = spec["nodeName"]
    kept_status = _picked(status, _POD_STATUS)
    kept_status["conditions"] = [_picked(each, _CONDITION) for each in mappings(status.get("conditions"))]
    for name in _CONTAINERS:
        if status.get(name):
            kept_status[name] = [_container_status(each) for each in mappings(status[name])]
    return {"spec": kept_spec, "status": kept_status}


def _container_status(status: Body) -> Body:
    kept = _picked(status, _CONTAINER_STATUS)
    for name in ("state", "lastState"):
        terminated = mapping(kept.get(name)).get("terminated")
        if isinstance(terminated, dict) and "containerID" in terminated:
            rest = {key: value for key, value in terminated.items() if key != "containerID"}
            kept[name] = {**kept[name], "terminated": rest}
    return kept


def _volumes(spec: Body) -> Body:
    ours = [each for each in mappings(spec.get("volumes")) if str(each.get("name")).startswith(_OUR_VOLUMES)]
    return {"volumes": [_picked(each, ("name", "secret")) for each in ours]} if ours else {}


def _batch_job(body: Body) -> Body:
    spec = part(body, "spec")
    kept: Body = {"suspend": spec.get("suspend", False)}
    if volumes := _volumes(part(spec, "template", "spec")):
        kept["template"] = {"spec": volumes}
    return {"spec": kept, "status": part(body, "status")}


def shortened(data: Body) -> Body:
    """Return a ConfigMap's data with a hash in the place of each long text."""
    return {
        name: _hash(text) if isinstance(text, str) and len(text) > _TEXT_MAX else text
        for name, text in islice(data.items(), _MOST)
    }


_KEEP: dict[str, Callable[[Body], Body]] = {
    "Pod": _pod,
    "Job": _batch_job,
    "ConfigMap": lambda body: {"data": shortened(part(body, "data"))},
    "Role": lambda body: {"rules": _first(body.get("rules"))},
    "RoleBinding": lambda body: {"subjects": _first(body.get("subjects"))},
    "PodGroup": lambda body: {"spec": part(body, "spec")},
}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _picked(body: Body, names: Iterable[str]) -> Body:
    return {name: body[name] for name in names if name in body}


def _first(value: Any) -> list[Any]:
    return value[:_MOST] if isinstance(value, list) else []
