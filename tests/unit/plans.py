"""What tests plan, and what they look at in a plan; used by its name: `plans.steps`. `job_states` has jobs and pods."""

from __future__ import annotations

from typing import Any

import job_states
import pytest

from agents.job.model import Job
from agents.job.read import read
from agents.job.status import Event
from agents.operator import objects
from agents.operator import plan as planner
from agents.operator.actions import Action, Create, Delete, DeleteWorkers, Patch, Plan, WriteStatus
from agents.operator.planning.view import Observed
from agents.operator.settings import PodSettings

Object = dict[str, Any]

START, OURS, ALL_ACTIVE = job_states.START, job_states.OURS, job_states.ALL_ACTIVE
SETTINGS = PodSettings(image="mpi-agents:test")
NOW = 1_700_000_100.0  # 2023-11-14T22:15:00Z
DIALECTS = pytest.mark.parametrize("version", ["v1", "v2beta1"])
WORKER = "spec/mpiReplicaSpecs/Worker"
LAUNCHERS = {"v1": "Pod pi-launcher", "v2beta1": "Job pi-launcher"}
NOTHING: Any = dict.fromkeys(("config_map", "service", "service_account", "role", "role_binding"))  # for `plan`


def observed(body: Object, *pods: Object, **more: Any) -> Observed:
    """All that the job needs is there, as it is made for its present number of workers; `more` replaces it.

    The Role of a job that has ended or is suspended has no rules any more. The batch Job of a v2beta1 launcher is there
    if the launcher's pod is.
    """
    job = read(body)
    found: Object = {}
    if body["spec"].get("dialect") == "v2beta1" and any(pod["metadata"]["name"] == "pi-launcher" for pod in pods):
        found["launcher_job"] = job_states.batch_job()
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


def plan(body: Object, *pods: Object, now: float = NOW, settings: PodSettings = SETTINGS, **more: Any) -> Plan:
    return planner.plan(read(body), observed(body, *pods, **more), settings, now)


def steps(found: Plan) -> list[list[str]]:
    """A plan's steps as text: verb, kind and name of each action."""
    return [[_text(one) for one in step] for step in found.steps]


def actions(found: Plan, *verbs: str) -> list[str]:
    """The actions of all steps that begin with one of these verbs."""
    return [action for step in steps(found) for action in step if action.startswith(verbs)]


def created(found: Plan) -> dict[str, Object]:
    """What a plan makes, by kind and name."""
    made = (one for step in found.steps for one in step if isinstance(one, Create))
    return {f"{one.kind.name} {one.body['metadata']['name']}": one.body for one in made}


def main_container(made: Object) -> Object:
    """The container where a pod's program runs, or that of a Job's pod."""
    containers = made["spec"].get("template", made)["spec"]["containers"]
    return next(one for one in containers if one["name"] == "mpi")


def status(found: Plan) -> Object:
    """The status that a plan writes."""
    first = found.steps[0][0]
    assert isinstance(first, WriteStatus)
    assert first.resource_version == "7"
    return first.status


def conditions(found: Plan) -> dict[str, tuple[str, str, str]]:
    """The conditions that a plan writes: status, reason and message by type."""
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status(found)["conditions"]}


def events(found: Plan) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.message) for step in found.steps for one in step if isinstance(one, Event)]


def _text(action: Action) -> str:
    match action:
        case Create(kind=kind, body=body):
            return f"create {kind.name} {body['metadata']['name']}"
        case Patch(kind=kind, name=name):
            return f"patch {kind.name} {name}"
        case Delete(kind=kind, name=name, uid=uid):
            return f"delete {kind.name} {name}" if uid else f"delete {kind.name} {name} of no uid"
        case DeleteWorkers():
            return "delete all workers"
        case WriteStatus():
            return "write"
        case Event(reason=reason):
            return f"tell {reason}"
