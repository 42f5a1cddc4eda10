"""What is kept of an object that is read: the caches hold thousands, and most of what the API says is never asked for.

Pure. Parts that are kept as they are belong to the object that was decoded, which nobody else keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agents.operator.kinds import Kind

Body = dict[str, Any]

JOB_UID = f"{PREFIX}job-uid"  # the label of all that we make, by which it is watched
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # a copy of the whole object
_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_OWNER = ("kind", "name", "uid", "controller")
_POD_STATUS = ("phase", "reason", "message", "startTime", "podIP")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER_STATUS = ("name", "ready", "started", "restartCount", "state", "lastState")
_CONTAINERS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OUR_VOLUMES = ("mpi-job-ssh", "mpi-job-config")  # by which pods tell how they were made
_WRITER = ("manager", "operation", "apiVersion", "subresource")


def trim(kind: Kind, body: Body) -> Body:
    """Return what is kept of an object of this kind, as `Observed` has it. It may be anything that the API sends."""
    keep = _KEEP.get(kind.name)
    metadata = _dict(body.get("metadata"))
    return (
        _mpi_job(body) if kind.name == "MPIJob" else {"metadata": _metadata(metadata), **(keep(body) if keep else {})}
    )


def _metadata(metadata: Body) -> Body:
    kept = _picked(metadata, _METADATA)
    owners = kept.get("ownerReferences")
    if owners:
        kept["ownerReferences"] = [_picked(owner, _OWNER) for owner in _dicts(owners)]
    annotations = {
        name: text for name, text in _dict(metadata.get("annotations")).items() if str(name).startswith(PREFIX)
    }
    return kept | {"annotations": annotations} if annotations else kept


def _mpi_job(body: Body) -> Body:
    metadata = dict(_dict(body.get("metadata")))
    if "managedFields" in metadata:
        metadata["managedFields"] = [_picked(entry, _WRITER) for entry in _dicts(metadata["managedFields"])]
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {name: text for name, text in annotations.items() if name != _LAST_APPLIED}
    return {**body, "metadata": metadata}


def _pod(body: Body) -> Body:
    spec, status = _dict(body.get("spec")), _dict(body.get("status"))
    kept_spec: Body = {
        "containers": [{"name": each.get("name")} for each in _dicts(spec.get("containers"))],
        "initContainers": [_picked(each, ("name", "restartPolicy")) for each in _dicts(spec.get("initContainers"))],
    }
    kept_spec |= _volumes(spec)
    if spec.get("nodeName"):
        kept_spec["nodeName"] = spec["nodeName"]
    kept_status = _picked(status, _POD_STATUS)
    kept_status["conditions"] = [_picked(each, _CONDITION) for each in _dicts(status.get("conditions"))]
    for name in _CONTAINERS:
        if status.get(name):
            kept_status[name] = [_container_status(each) for each in _dicts(status[name])]
    return {"spec": kept_spec, "status": kept_status}


def _container_status(status: Body) -> Body:
    kept = _picked(status, _CONTAINER_STATUS)
    for name in ("state", "lastState"):
        terminated = _dict(kept.get(name)).get("terminated")
        if isinstance(terminated, dict) and "containerID" in terminated:
            rest = {key: value for key, value in terminated.items() if key != "containerID"}
            kept[name] = {**kept[name], "terminated": rest}
    return kept


def _volumes(spec: Body) -> Body:
    ours = [each for each in _dicts(spec.get("volumes")) if str(each.get("name")).startswith(_OUR_VOLUMES)]
    return {"volumes": [_picked(each, ("name", "secret")) for each in ours]} if ours else {}


def _batch_job(body: Body) -> Body:
    spec = _dict(body.get("spec"))
    kept: Body = {"suspend": spec.get("suspend", False)}
    if volumes := _volumes(_dict(_dict(spec.get("template")).get("spec"))):
        kept["template"] = {"spec": volumes}
    return {"spec": kept, "status": _dict(body.get("status"))}


_KEEP: dict[str, Callable[[Body], Body]] = {
    "Pod": _pod,
    "Job": _batch_job,
    "ConfigMap": lambda body: {"data": _dict(body.get("data"))},
    "Role": lambda body: {"rules": body.get("rules") or []},
    "RoleBinding": lambda body: {"subjects": body.get("subjects") or []},
    "PodGroup": lambda body: {"spec": _dict(body.get("spec"))},
}


def _picked(body: Body, names: Iterable[str]) -> Body:
    return {name: body[name] for name in names if name in body}


def _dict(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Body]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
