"""Decides what is to be done about one MPIJob. Pure: it touches nothing, and the same facts give the same plan.

How a job is looked at, in this order; the first that holds decides:

| the job | what is done | in |
|---|---|---|
| is being deleted, `managedBy` another controller, or its status is another operator's | nothing | here |
| has ended, as its status says | its pods are cleaned up, and its ttl kept | `planning.ended` |
| can't be read | event and condition ValidationError, until it is edited | here |
| its launcher has ended | the status says so; then as above | `planning.active` |
| is suspended, or resumed with pods of before | launcher, then workers and PodGroup go | `planning.suspended` |
| is to run | what it needs is made and kept | `planning.active` |

Of the launcher's ends and retries `planning.launcher` has the table, of the workers' `planning.workers`, of what
cleanPodPolicy means `planning.ended`.

A job that has pods is planned with the transport, dialect and shared settings that they were made with
(`planning.holding`).

What makes it safe to plan from caches that lag: a pod is made under its fixed name, and a batch Job as well, so none is
made twice; the first step of a plan that makes any writes the status at the version that was read, so that a stale plan
ends there; what is deleted is deleted by its uid; and all workers at once only if the job has ended, or behind a write.
An action that the API server refuses ends the plan after its step; the next plan knows (`Observed.refused`, `taken`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job import conditions
from agents.job.conditions import Stated, Type
from agents.job.dialects import is_managed_elsewhere
from agents.job.modes import effective
from agents.job.status import Draft, Event, conditions_of, is_finished, raw_conditions
from agents.operator.actions import Emit, Plan, WriteStatus
from agents.operator.planning import active, ended, holding, launcher, suspended
from agents.operator.planning.launcher import Stage
from agents.operator.planning.values import mapping, mappings
from agents.operator.planning.view import View

if TYPE_CHECKING:
    from agents.job.model import Job, Object, Problem
    from agents.operator.observed import Observed
    from agents.operator.settings import PodSettings

MANAGER = "mpi-agents"  # the field manager of all that we write


def plan(job: Job | tuple[Problem, ...], observed: Observed, settings: PodSettings, now: float) -> Plan:
    """Return what is to be done about this job at `now` (epoch seconds)."""
    resource = observed.resource
    if not is_ours(resource):
        return Plan()
    job, kept = holding.hold(job, observed)
    if isinstance(job, tuple):
        return Plan() if is_finished(resource) else _invalid(job, observed, now)
    if job.is_being_deleted:
        return Plan()
    was_paused = conditions.find(conditions_of(resource), Type.SUSPENDED) is not None
    view = View(effective(job, is_resumed=was_paused), observed, settings, now, kept)
    if is_finished(resource):
        return ended.plan(view)
    found = launcher.judge(view)
    if view.is_stopping and found.stage is not Stage.SUCCEEDED:
        return suspended.plan(view)
    return active.plan(view, found)


def is_ours(resource: Object) -> bool:
    """Whether we may act for this job: nobody else manages it, or has written its status."""
    metadata = mapping(resource.get("metadata"))
    if metadata.get("deletionTimestamp") or is_managed_elsewhere(resource):
        return False
    if not raw_conditions(resource):
        return True
    managers = mappings(metadata.get("managedFields"))
    return any((one.get("manager"), one.get("subresource")) == (MANAGER, "status") for one in managers)


def _invalid(problems: tuple[Problem, ...], observed: Observed, now: float) -> Plan:
    words = f"Found validation errors: [{', '.join(map(str, problems))}]"
    draft = Draft(None, observed.resource, now)
    draft.note(
        Stated(Type.VALIDATION_ERROR, True, "ValidationError", words), Event("Warning", "ValidationError", words)
    )
    if not draft.urgency:
        return Plan()
    version = str(mapping(observed.resource.get("metadata")).get("resourceVersion", ""))
    write = WriteStatus(draft.written(), version, "the job can't be read")
    events = tuple(Emit(*event) for event in draft.events)
    return Plan(((write,), events)) if events else Plan(((write,),))
