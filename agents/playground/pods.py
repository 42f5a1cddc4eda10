"""Pods: what a test asks for, their API objects, and what those tell. Pure."""

from __future__ import annotations

import itertools
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """What is asked of the cluster: one pod. Its containers have no processes: they are as if they slept for ever.

    `state` is one of pod_status.py's. `mounts` are folders (or files) to show inside the pod, path there → path here;
    where the system does not allow that, the pod runs without them (`Cluster.mounted` tells).
    """

    name: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: Sequence[str] = ("worker",)
    environ: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    state: str = "ready"
    address: str | None = None  # its podIP; None: one of its own out of 127.0.0.0/8
    subdomain: str = ""
    hostname: str = ""  # "": its name


_IMAGE = "docker.io/library/stand-in:latest"
_addresses = itertools.count(0)


def new_address() -> str:
    """A loopback address that no other pod of this process has."""
    number = next(_addresses) % (60 * 256 * 250)
    return f"127.{64 + number // (256 * 250)}.{number // 250 % 256}.{1 + number % 250}"


def timestamp(at: float | None = None) -> str:
    """RFC 3339 in UTC, as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def new_object(pod: Pod) -> Object:
    """The API object of a pod that has just been created."""
    environ = [{"name": name, "value": value.replace("$", "$$")} for name, value in pod.environ.items()]
    spec: Object = {
        "containers": [{"name": name, "image": _IMAGE, "env": environ} for name in pod.containers],
        "nodeName": "",
        "restartPolicy": "Never",
        "subdomain": pod.subdomain,
        "hostname": pod.hostname or pod.name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": str(uuid.uuid4()),
            "resourceVersion": "",
            "creationTimestamp": timestamp(),
            "labels": dict(pod.labels),
            "annotations": dict(pod.annotations),
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def of_object(thing: Object) -> Pod:
    """What the kubelet needs to know of an API object."""
    meta, spec = thing["metadata"], thing["spec"]
    spec.setdefault("restartPolicy", "Always")
    return Pod(
        meta["name"],
        meta["namespace"],
        subdomain=spec.get("subdomain", ""),
        hostname=spec.get("hostname", ""),
    )


def fault(body: Object) -> str:
    """Why the API server refuses to create a pod, in its words; "" if it does not. Few things are checked."""
    spec = body.get("spec") or {}
    volumes = {one.get("name") for one in spec.get("volumes") or ()}
    if not spec.get("containers"):
        return "spec.containers: Required value"
    if spec.get("restartPolicy", "Always") not in {"Always", "OnFailure", "Never"}:
        supported = 'supported values: "Always", "OnFailure", "Never"'
        return f'spec.restartPolicy: Unsupported value: "{spec["restartPolicy"]}": {supported}'
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        for number, one in enumerate(spec.get(part) or ()):
            place = f"spec.{part}[{number}]"
            for needed in ("name", "image"):
                if not one.get(needed):
                    return f"{place}.{needed}: Required value"
            if one["name"] in seen:
                return f'{place}.name: Duplicate value: "{one["name"]}"'
            seen.add(one["name"])
            for at, mount in enumerate(one.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    return f'{place}.volumeMounts[{at}].name: Not found: "{mount.get("name")}"'
    return ""


def statuses_of(thing: Object, container: str) -> list[Object]:
    """A container's status, if the pod has one of it."""
    status = thing["status"]
    found = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
    return [one for one in found if one["name"] == container]


def runs(thing: Object, container: str) -> bool:
    """Whether a container can be execed into."""
    return any("running" in one["state"] for one in statuses_of(thing, container))


def is_over(thing: Object, container: str) -> bool:
    """Whether a container has ended and is not started again."""
    return any("terminated" in one["state"] for one in statuses_of(thing, container))


def waits(thing: Object, container: str) -> str:
    """Why a container has not started, "" if it has."""
    found: Object = next(iter(statuses_of(thing, container)), {"state": {"waiting": {}}})
    waiting = {} if found.get("lastState") else found["state"]
    return str(waiting["waiting"].get("reason", "ContainerCreating")) if "waiting" in waiting else ""


def is_ready(thing: Object) -> bool:
    """Whether a pod's condition says so."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in thing["status"].get("conditions", ()))


def container_names(thing: Object) -> list[str]:
    """All containers, init containers last."""
    spec = thing["spec"]
    return [one["name"] for one in [*spec["containers"], *spec.get("initContainers", ())]]
