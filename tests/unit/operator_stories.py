"""What the tests of plan are told in: pods in a state, a job's objects as they are after its start, a plan in words."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import mpijob

from agents.job.model import Job
from agents.job.read import read
from agents.operator import objects
from agents.operator.actions import Action, Create, CreateKeys, Delete, DeleteWorkers, Emit, Patch, Plan, WriteStatus
from agents.operator.plan import plan
from agents.operator.planning.view import Observed
from agents.operator.settings import PodSettings

Object = dict[str, Any]

SETTINGS = PodSettings(image="mpi-agents:test")
NOW = 1_700_000_100.0  # 2023-11-14T22:15:00Z
START = "2023-11-14T22:13:20Z"  # 100 s before
DIALECTS = pytest.mark.parametrize("version", ["v1", "v2beta1"])
WORKER = "spec/mpiReplicaSpecs/Worker"
LAUNCHERS = {"v1": "Pod pi-launcher", "v2beta1": "Job pi-launcher"}
ALL_ACTIVE = {"Launcher": {"active": 1}, "Worker": {"active": 2}}  # replicaStatuses
NOTHING: Any = dict.fromkeys(("config_map", "service", "service_account", "role", "role_binding"))  # for `planned`
OURS = [{"manager": "mpi-agents", "operation": "Update", "subresource": "status"}]


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


def observed(body: Object, *pods: Object, **more: Any) -> Observed:
    """All that the job needs is there, as it is made for its present number of workers; `more` replaces it.

    The Role of a job that has ended or is suspended has no rules any more.
    """
    job = read(body)
    found: Object = {}
    if isinstance(job, Job):
        hosts = range(job.worker.replicas)
        made = {
            "config_map": objects.config_map(job, SETTINGS, hosts),
            "service": objects.service(job, SETTINGS),
            "service_account": objects.service_account(job, SETTINGS),
            "role": objects.role(job, SETTINGS, hosts),
            "role_binding": objects.role_binding(job, SETTINGS),
            "secret": objects.secret(job, SETTINGS),
        }
        for field, one in made.items():
            if one is not None:
                found[field] = {
                    **one,
                    "metadata": {**one["metadata"], "uid": f"uid-of-{field}", "resourceVersion": "8"},
                }
        if job.policy.is_suspended or "completionTime" in body.get("status", {}):
            found["role"] = {**found["role"], "rules": []} if "role" in found else None
    return Observed(body, tuple(pods), **{**found, **more})


def planned(body: Object, *pods: Object, now: float = NOW, settings: PodSettings = SETTINGS, **more: Any) -> Plan:
    return plan(read(body), observed(body, *pods, **more), settings, now)


def told(found: Plan) -> list[list[str]]:
    """A plan's steps in words."""
    return [[_words(one) for one in step] for step in found.steps]


def told_of(found: Plan, *verbs: str) -> list[str]:
    """What a plan does by these verbs, in whichever step."""
    return [words for step in told(found) for words in step if words.startswith(verbs)]


def created(found: Plan) -> dict[str, Object]:
    """What a plan makes, by kind and name."""
    made = (one for step in found.steps for one in step if isinstance(one, Create))
    return {f"{one.kind.name} {one.body['metadata']['name']}": one.body for one in made}


def main_container(made: Object) -> Object:
    """The container where a pod's program runs, or that of a Job's pod."""
    containers = made["spec"].get("template", made)["spec"]["containers"]
    return next(one for one in containers if one["name"] == "mpi")


def written(found: Plan) -> Object:
    """The status that a plan writes."""
    first = found.steps[0][0]
    assert isinstance(first, WriteStatus)
    assert first.resource_version == "7"
    return first.status


def stated(found: Plan) -> dict[str, tuple[str, str, str]]:
    """The conditions that a plan writes: status, reason and message by type."""
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in written(found)["conditions"]}


def events(found: Plan) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.message) for step in found.steps for one in step if isinstance(one, Emit)]


def _words(action: Action) -> str:
    match action:
        case Create(kind=kind, body=body):
            return f"create {kind.name} {body['metadata']['name']}"
        case CreateKeys(body=body):
            return f"create Secret {body['metadata']['name']}"
        case Patch(kind=kind, name=name):
            return f"patch {kind.name} {name}"
        case Delete(kind=kind, name=name, uid=uid):
            return f"delete {kind.name} {name}" if uid else f"delete {kind.name} {name} of no uid"
        case DeleteWorkers():
            return "delete all workers"
        case WriteStatus():
            return "write"
        case Emit(reason=reason):
            return f"tell {reason}"
