"""A job, its pods and its events for tests of the client, as an operator leaves them at a moment."""

from __future__ import annotations

import copy
from typing import Any

from mpijobs import mpijob

from agents.client.facts import Facts
from agents.job.status import format_time, seconds
from agents.playground.pod_status import status_of

Object = dict[str, Any]

BEGAN = float(seconds("2026-03-01T12:00:00Z") or 0)  # when the job was created
NOW = BEGAN + 300


def job(version: str, *true: str, changes: Object | None = None, message: str = "", reason: str = "") -> Object:
    """A job with these conditions True; the last one has a message or a reason."""
    made = mpijob(version, changes)
    made["metadata"]["creationTimestamp"] = format_time(BEGAN)
    conditions = [condition(kind) for kind in true]
    if conditions:
        conditions[-1] |= {"message": message, "reason": reason or f"MPIJob{true[-1]}"}
    status = {"conditions": conditions, "startTime": format_time(BEGAN)}
    if {"Succeeded", "Failed"} & {*true}:
        status["completionTime"] = format_time(BEGAN + 120)
    made["status"] = status if conditions else {}
    return made


def attempted(message: str) -> Object:
    """A job that failed, whose launcher's pod is gone, with its failed attempt as our operator lists it."""
    made = job("v2beta1", "Failed", reason="BackoffLimitExceeded", message="Job has reached the limit")
    made["status"]["failedAttempts"] = [{"pod": "pi-launcher-x", "endedAt": at(100), "message": message}]
    return made


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": f"MPIJob{kind}", "message": "", "lastTransitionTime": at(5)}


def at(after_s: float) -> str:
    return format_time(BEGAN + after_s)


def pod(name: str, state: str, *, started: float = 10, ended: float = 100, **told: Any) -> Object:
    """A pod in one of the playground's states; its containers, if they ended, at these times after the job's."""
    thing: Object = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": at(1)},
        "spec": {"nodeName": "node-1", "containers": [{"name": "mpi", "image": "example/mpi"}]},
        "status": {},
    }
    thing["metadata"]["ownerReferences"] = [{"kind": "MPIJob", "name": "pi", "uid": "1-2", "controller": True}]
    thing["status"] = copy.deepcopy(status_of(thing, state, address="10.0.0.7", **told))
    for one in thing["status"].get("containerStatuses", ()):
        for part in ("state", "lastState"):
            if finished := one[part].get("terminated"):
                finished |= {"startedAt": at(started), "finishedAt": at(ended)}
    if state in {"pending", "unschedulable"}:
        del thing["spec"]["nodeName"]
    return thing


def with_hub(launcher: Object, ended: float) -> Object:
    """A launcher with a sidecar that the kubelet has ended behind the others."""
    at_end = {"exitCode": 143, "reason": "Error", "startedAt": at(5), "finishedAt": at(ended)}
    hub = {"name": "hub", "state": {"terminated": at_end}, "lastState": {}, "restartCount": 0, "ready": False}
    launcher["spec"]["initContainers"] = [{"name": "hub", "restartPolicy": "Always"}]
    launcher["status"]["initContainerStatuses"] = [hub]
    return launcher


def workers(*states: str) -> list[Object]:
    return [pod(f"pi-worker-{index}", state) for index, state in enumerate(states)]


def event(message: str, reason: str = "FailedCreate", kind: str = "MPIJob") -> Object:
    about = {"kind": kind, "name": "pi", "uid": "1-2"}
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": about, "lastTimestamp": at(20)}


def with_sidecar(worker: Object, name: str) -> Object:
    """A worker with a sidecar that runs, and is not ready."""
    state = {"running": {"startedAt": at(5)}}
    sidecar = {"name": name, "state": state, "lastState": {}, "restartCount": 0, "ready": False, "started": True}
    worker["spec"]["initContainers"] = [{"name": name, "restartPolicy": "Always"}]
    worker["status"]["initContainerStatuses"] = [sidecar]
    for one in worker["status"]["conditions"]:
        one["status"] = "False" if one["type"] in {"Ready", "ContainersReady"} else one["status"]
    return worker


def told(pod_name: str, reason: str, message: str) -> Object:
    """An event of a pod."""
    about = {"kind": "Pod", "name": pod_name, "uid": f"uid-{pod_name}"}
    return {**event(message, reason, "Pod"), "involvedObject": about, "lastTimestamp": at(90)}


def facts(
    resource: Object,
    *pods: Object,
    events: tuple[Object, ...] = (),
    output: tuple[str, ...] = (),
    silent_s: float | None = None,
) -> Facts:
    silent_since = None if silent_s is None else NOW - silent_s
    return Facts(resource, pods, NOW, events, output, silent_since=silent_since)
