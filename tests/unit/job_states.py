"""A job and its pods in a state, as the tests of plan begin: two workers by exec, started 100 s before `plans.NOW`."""

from __future__ import annotations

from typing import Any

from mpijobs import mpijob

Object = dict[str, Any]

START = "2023-11-14T22:13:20Z"
ALL_ACTIVE = {"Launcher": {"active": 1}, "Worker": {"active": 2}}  # replicaStatuses
OURS = [{"manager": "mpi-agents", "operation": "Update", "subresource": "status"}]  # managedFields


def condition(kind: str, status: str = "True", reason: str = "", message: str = "", at: str = START) -> Object:
    times = {"lastUpdateTime": at, "lastTransitionTime": at}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


CREATED = condition("Created", reason="MPIJobCreated", message="MPIJob default/pi is created.")
RUNNING = condition("Running", reason="MPIJobRunning", message="MPIJob default/pi is running.")
READY = condition("WorkersReady", reason="WorkersReady", message="2/2 ready")


def resource(version: str, changes: Object | None = None, *conditions: Object, **status: Any) -> Object:
    """A job that has been started, if any conditions are given; further fields of its status by name."""
    made = mpijob(version, {"spec/dialect": version, "spec/transport": "exec", **(changes or {})})
    made["metadata"] |= {"resourceVersion": "7"}
    if conditions:
        made["metadata"]["managedFields"] = OURS
        before = {"startTime": START, "lastReconcileTime": START, "replicaStatuses": {"Launcher": {}, "Worker": {}}}
        made["status"] = {"conditions": list(conditions), **before, **status}
    return made


def running(version: str = "v1", changes: Object | None = None, *conditions: Object) -> Object:
    """A job all of whose pods run."""
    return resource(version, changes, READY, *conditions, CREATED, RUNNING, replicaStatuses=ALL_ACTIVE)


def pod(name: str, phase: str = "Running", *, code: int | None = None, **more: Any) -> Object:
    """A pod of the job. `code`: how its container ended; `more`: reason, deleted, created, restarts, annotations, …"""
    main = more.get("container", "mpi")
    state: Object = {"running": {"startedAt": START}}
    if code is not None:
        ended = {"exitCode": code, "finishedAt": more.get("finished", START), "reason": more.get("why", "Error")}
        state = {"terminated": ended | {"message": more.get("said", ""), "startedAt": START}}
    metadata = {"name": name, "namespace": "default", "uid": more.get("uid", f"uid-of-{name}"), "resourceVersion": "9"}
    metadata |= {"creationTimestamp": more.get("created", START), "annotations": more.get("annotations", {})}
    if "deleted" in more:
        metadata["deletionTimestamp"] = more["deleted"]
    status: Object = {"phase": phase, "podIP": "10.0.0.1" if phase == "Running" else ""}
    status["conditions"] = [{"type": "Ready", "status": str(more.get("ready", phase == "Running"))}]
    if phase != "Pending":
        one = {"name": main, "ready": phase == "Running", "restartCount": more.get("restarts", 0), "state": state}
        status["containerStatuses"] = [one | {"lastState": more.get("last", {})}, *more.get("beside", [])]
    status |= {"reason": more.get("reason", ""), "message": more.get("message", "")}
    spec = {"containers": [{"name": main}], "nodeName": more.get("node", "node-7")}
    return {"metadata": metadata, "spec": spec, "status": status}


def workers(count: int = 2, phase: str = "Running", **more: Any) -> list[Object]:
    return [pod(f"pi-worker-{index}", phase, **more) for index in range(count)]


def launcher(phase: str = "Running", **more: Any) -> Object:
    return pod("pi-launcher", phase, **more)


def batch_job(*conditions: Object, **status: Any) -> Object:
    metadata = {"name": "pi-launcher", "uid": "uid-of-the-job", "resourceVersion": "9"}
    return {"metadata": metadata, "spec": {"suspend": False}, "status": {"conditions": list(conditions), **status}}


def own(version: str, made: Object | None = None) -> dict[str, Any]:
    """A launcher's batch Job, where it has one."""
    return {"launcher_job": made or batch_job()} if version == "v2beta1" else {}
