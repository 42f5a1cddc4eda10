"""Pods as the API shows them: plain dicts, and the states that a pod goes through. Pure."""

from __future__ import annotations

import itertools
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Object = dict[str, Any]

# What a container waits for, in each state that has one.
_WAITING = {
    "pulling": ("ContainerCreating", ""),
    "image-pull-backoff": ("ImagePullBackOff", 'Back-off pulling image "{image}"'),
    "err-image-pull": ("ErrImagePull", 'failed to pull and unpack image "{image}": not found'),
    "invalid-image-name": ("InvalidImageName", 'Failed to apply default image tag "{image}": invalid reference format'),
    "config-error": ("CreateContainerConfigError", 'secret "missing" not found'),
    "run-error": ("RunContainerError", "failed to create containerd task"),
    "crash-loop": ("CrashLoopBackOff", "back-off 40s restarting failed container={container} pod={pod}"),
}
_ENDED = {"succeeded": ("Completed", 0), "failed": ("Error", 1), "oom-killed": ("OOMKilled", 137)}
STATES = (
    "pending",
    "unschedulable",
    "scheduled",
    "initializing",
    *_WAITING,
    "running",
    "ready",
    *_ENDED,
    "evicted",
    "unknown",
)


@dataclass(frozen=True)
class Container:
    """One container. Without a command it has no process of its own: it is as if it slept for ever."""

    name: str = "worker"
    command: Sequence[str] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    image: str = "docker.io/library/stand-in:latest"
    init: bool = False  # an init container; with `sidecar` one that keeps running
    sidecar: bool = False


@dataclass(frozen=True)
class Pod:
    """What is asked of the cluster: one pod.

    `steps` are (seconds since the step before, state) with the states of `STATES`; the default is ready at once.
    `mounts` are folders (or files) to show inside the pod, path there → path here; where the system does not allow
    that, the pod runs without them (`Cluster.mounted` tells).
    """

    name: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: Sequence[Container] = (Container(),)
    environ: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()  # programs that its image does not have: exec refuses them (not those they would start)
    steps: Sequence[tuple[float, str]] = ((0.0, "ready"),)
    node: str = "node-1"
    address: str | None = None  # its podIP; None: one of its own out of 127.0.0.0/8
    subdomain: str = ""
    hostname: str = ""  # "": its name


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
    spec: Object = {
        "containers": [_container(one) for one in pod.containers if not one.init],
        "nodeName": "",
        "restartPolicy": "Never",
        "subdomain": pod.subdomain,
        "hostname": pod.hostname or pod.name,
    }
    init = [_container(one) for one in pod.containers if one.init]
    if init:
        spec["initContainers"] = init
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
    containers = [Container(one["name"], image=one["image"]) for one in spec["containers"]]
    containers += [
        Container(one["name"], image=one["image"], init=True, sidecar=one.get("restartPolicy") == "Always")
        for one in spec.get("initContainers") or ()
    ]
    return Pod(
        meta["name"],
        meta["namespace"],
        meta.get("labels") or {},
        meta.get("annotations") or {},
        containers,
        subdomain=spec.get("subdomain", ""),
        hostname=spec.get("hostname", ""),
    )


def fault(body: Object) -> str:
    """What is wrong with a pod that is to be created, in the API server's words; "" if nothing that is looked at."""
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


def _container(container: Container) -> Object:
    spec: Object = {"name": container.name, "image": container.image}
    if container.command is not None:
        spec["command"] = list(container.command)
    if container.sidecar:
        spec["restartPolicy"] = "Always"
    return spec


def status_of(thing: Object, state: str, *, address: str, message: str = "", exit_code: int | None = None) -> Object:
    """The status of a pod in one of `STATES`. `message` replaces the usual one. Raises ValueError."""
    if state not in STATES:
        raise ValueError(f"no pod state {state!r}; there are: {', '.join(STATES)}")
    if state == "evicted":
        text = message or "The node was low on resource: memory."
        return {"phase": "Failed", "reason": "Evicted", "message": text, "startTime": timestamp()}
    scheduled = state not in {"pending", "unschedulable"}
    status: Object = {"phase": _phase(state), "conditions": _conditions(state, scheduled=scheduled, message=message)}
    if not scheduled:
        return status
    old = thing["status"]
    status |= {"hostIP": "127.0.0.1", "startTime": old.get("startTime", timestamp())}
    if state not in {"scheduled", "pulling", "invalid-image-name"}:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if state == "unknown":
        status |= {"reason": "NodeLost", "message": message or "Node is unresponsive"}
    status["containerStatuses"] = [
        _container_status(thing, one, state, message, exit_code) for one in thing["spec"]["containers"]
    ]
    if "initContainers" in thing["spec"]:
        status["initContainerStatuses"] = [_init_status(one, state) for one in thing["spec"]["initContainers"]]
    return status


def _phase(state: str) -> str:
    phases = {"running": "Running", "ready": "Running", "crash-loop": "Running", "unknown": "Unknown"}
    phases |= {"succeeded": "Succeeded", "failed": "Failed", "oom-killed": "Failed"}
    return phases.get(state, "Pending")


def _conditions(state: str, *, scheduled: bool, message: str) -> list[Object]:
    def condition(kind: str, *, true: bool, **more: str) -> Object:
        return {"type": kind, "status": "True" if true else "False", "lastTransitionTime": timestamp(), **more}

    if state == "unschedulable":
        text = message or "0/12 nodes are available: 12 Insufficient cpu."
        return [condition("PodScheduled", true=False, reason="Unschedulable", message=text)]
    ready = state == "ready"
    why = {} if ready else {"reason": "ContainersNotReady"}
    if state == "succeeded":
        why = {"reason": "PodCompleted"}
    return [
        condition("PodScheduled", true=scheduled),
        condition("Initialized", true=state not in {"pending", "scheduled", "initializing"}),
        condition("ContainersReady", true=ready, **why),
        condition("Ready", true=ready, **why),
    ]


def _container_status(thing: Object, spec: Object, state: str, message: str, exit_code: int | None) -> Object:
    status: Object = {"name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0}
    status |= {"ready": state == "ready", "started": state in {"running", "ready"}, "lastState": {}}
    if state in {"running", "ready", "unknown"}:
        old = _old_status(thing, spec["name"])
        status["state"] = {"running": old.get("state", {}).get("running") or {"startedAt": timestamp()}}
    elif state in _ENDED:
        reason, code = _ENDED[state]
        ended = {"exitCode": code if exit_code is None else exit_code, "reason": reason, "finishedAt": timestamp()}
        status["state"] = {"terminated": ended | ({"message": message} if message else {})}
    else:
        reason, text = _WAITING.get(state, ("PodInitializing" if state == "initializing" else "ContainerCreating", ""))
        text = message or text.format(image=spec["image"], container=spec["name"], pod=thing["metadata"]["name"])
        status["state"] = {"waiting": {"reason": reason} | ({"message": text} if text else {})}
        if state == "crash-loop":
            status["restartCount"] = 3
            status["lastState"] = {"terminated": {"exitCode": exit_code or 1, "reason": "Error"}}
    return status


def _old_status(thing: Object, container: str) -> Object:
    for status in thing["status"].get("containerStatuses", ()):
        if status["name"] == container:
            return dict(status)
    return {}


def _init_status(spec: Object, state: str) -> Object:
    sidecar = spec.get("restartPolicy") == "Always"
    status: Object = {"name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0, "lastState": {}}
    running = state == "initializing" or (sidecar and state in {"running", "ready"})
    if running:
        status["state"] = {"running": {"startedAt": timestamp()}}
    elif state in {"scheduled", *_WAITING} and state != "crash-loop":
        status["state"] = {"waiting": {"reason": "PodInitializing"}}
    else:
        status["state"] = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": timestamp()}}
    status["ready"] = running if sidecar else "terminated" in status["state"]
    status["started"] = running
    return status


def runs(thing: Object, container: str) -> bool:
    """Whether a container can be execed into."""
    statuses = thing["status"].get("containerStatuses", []) + thing["status"].get("initContainerStatuses", [])
    return any(status["name"] == container and "running" in status.get("state", {}) for status in statuses)


def waits(thing: Object, container: str) -> str:
    """Why a container has not started, "" if it has."""
    statuses = thing["status"].get("containerStatuses", []) + thing["status"].get("initContainerStatuses", [])
    found: Object = next((status for status in statuses if status["name"] == container), {"state": {"waiting": {}}})
    waiting = {} if found.get("lastState") else found["state"]
    return str(waiting["waiting"].get("reason", "ContainerCreating")) if "waiting" in waiting else ""


def is_over(thing: Object, container: str) -> bool:
    """Whether a container has ended and is not started again."""
    statuses = thing["status"].get("containerStatuses", []) + thing["status"].get("initContainerStatuses", [])
    return any(status["name"] == container and "terminated" in status.get("state", {}) for status in statuses)


def container_names(thing: Object) -> list[str]:
    """All containers, init containers last."""
    spec = thing["spec"]
    return [one["name"] for one in [*spec["containers"], *spec.get("initContainers", ())]]
