"""A job that is suspended, or paused: it has no pods, and nothing of it waits for any.

The launcher goes first: its mpirun is told to end, ends the ranks, and these may use its grace period to save what they
have. The workers go when no program of the launcher runs any more, or that period is over. A job that is resumed before
all pods are gone is stopped to the end: what it is then, it is made anew from its templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.status import Counts, Draft, Urgency, seconds
from agents.operator.planning import ended, launcher, notes, resources, tasks
from agents.operator.planning.values import mapping
from agents.operator.planning.writing import Steps

if TYPE_CHECKING:
    from agents.operator.actions import Plan
    from agents.operator.planning.pods import PodView
    from agents.operator.planning.view import View

_GRACE_S = 30  # Kubernetes' default
_DELAY_S = 30  # for the garbage collector to delete what belonged to a batch Job


def plan(view: View) -> Plan:
    """Plan for a job that is to have no pods."""
    draft = Draft(view.job, view.observed.resource, view.now)
    draft.created(starts=False)
    draft.suspended()
    draft.forget((Type.WORKERS_OUTDATED, Type.CREATION_REFUSED, Type.RESOURCE_EXISTS))
    draft.forget((Type.VALIDATION_ERROR, Type.RESTARTING, Type.DEBUGGING))
    notes.tell_stuck(view, draft)
    active, worker = (
        Counts(active=sum(pod.phase == "Running" for pod in pods)) for pods in (view.launchers, view.workers.values())
    )
    # Kueue gives what the job had to another one when none is active.
    urgency = Urgency.LOW if active.active + worker.active else Urgency.AT_ONCE
    draft.counts(active, worker, f"{view.ready}/{len(view.wanted)}", urgency)
    tasks.tell(view, draft)
    steps = Steps(view, draft)
    removals: list[ended.Removal] = [*ended.launcher_end(view, "suspended")]
    held_until = _held_until(view)
    steps.again(held_until)
    for pod in (*view.workers.values(), *view.launchers):
        steps.again(pod.stuck_at)
    if held_until <= view.now:
        present = [pod for pod in view.workers.values() if not pod.is_going]
        removals += [*resources.pod_group_end(view), *ended.removal(present, present, "suspended")]
    if removals:
        steps.write()  # a stale plan must not meet the pods of a resumed job
        steps.add(removals)
    return steps.plan()


def _held_until(view: View) -> float:
    """Return until when, at most, the launcher's program needs the workers."""
    return max((_ends_by(view, pod) for pod in view.launchers if launcher.runs(view, pod)), default=0.0)


def _ends_by(view: View, pod: PodView) -> float:
    """Return when a pod's grace period is over."""
    if pod.deleted_by is not None:
        return pod.deleted_by
    asked_at: float | None = view.now
    if not view.job.dialect.has_launcher_pod:
        job = view.observed.launcher_job
        suspended = conditions.find(view.conditions, Type.SUSPENDED) or {}
        if job is None:
            asked_at = seconds(suspended.get("lastTransitionTime"))
        elif "deletionTimestamp" in mapping(job.get("metadata")):
            asked_at = seconds(mapping(job.get("metadata")).get("deletionTimestamp"))
    spec = mapping(view.job.launcher.template.get("spec"))
    grace = spec.get("terminationGracePeriodSeconds")
    return (asked_at or view.now) + (grace if isinstance(grace, int) else _GRACE_S) + _DELAY_S
