"""Plans a job that is suspended or paused: its pods are deleted.

The launcher goes first: its mpirun is terminated, ends the ranks, and these may use its grace period to save what they
have. The workers go when no program of the launcher runs any more, or that period is over; those that only wait
(`planning.idling`) when its pod has gone, with a short grace period. A job that is resumed before all pods are gone is
stopped completely first; then its pods are recreated from its templates.
"""

from __future__ import annotations

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import part
from agents.job.status import Counts, StatusBuilder, Urgency, seconds
from agents.operator.actions import Plan
from agents.operator.planning import ended, held, idling, launcher, own_conditions, resources, status
from agents.operator.planning.pods import PodView
from agents.operator.planning.status import Steps
from agents.operator.planning.view import View

_GRACE_S = 30  # Kubernetes' default
_DELAY_S = 30  # for the garbage collector to delete what belonged to a batch Job
_HUB_END_S = 5  # for a launcher's hub, which the kubelet ends last


def plan(view: View) -> Plan:
    """Plan for a job that must have no pods."""
    builder = StatusBuilder(view.job, view.observed.resource, view.now)
    builder.created(starts=False)
    builder.suspended()
    builder.remove_conditions((Type.WORKERS_OUTDATED, Type.CREATION_REFUSED, Type.RESOURCE_EXISTS))
    builder.remove_conditions((Type.VALIDATION_ERROR, Type.RESTARTING, Type.DEBUGGING, Type.DVM_OUTDATED))
    if not view.launchers:  # a resumed cluster's login pod replaces none
        builder.remove_fields(("loginStartedAt", "dvmNodes"))
    own_conditions.set_stuck(view, builder)
    held.set_queued(view, builder)
    own_conditions.set_ignored(view, builder)
    active, worker = (
        Counts(active=sum(pod.phase == "Running" for pod in pods)) for pods in (view.launchers, view.workers.values())
    )
    # Kueue gives what the job had to another one when none is active.
    urgency = Urgency.LOW if active.active + worker.active else Urgency.AT_ONCE
    builder.counts(active, worker, f"{view.ready}/{len(view.wanted)}", urgency)
    builder.interruptions(0)
    status.set_tasks(view, builder)
    steps = Steps(view, builder)
    removals: list[ended.Removal] = [*ended.launcher_end(view, "suspended")]
    present = [pod for pod in view.workers.values() if not pod.is_going]
    held_until = _held_until(view, present)
    steps.requeue_at(held_until)
    for pod in (*view.workers.values(), *view.launchers):
        steps.requeue_at(pod.stuck_at)
    if held_until <= view.now:
        removals += [*resources.pod_group_end(view), *ended.removal(view, present, present, "suspended")]
    if removals:
        steps.write()  # a stale plan must not meet the pods of a resumed job
    steps.add((*resources.rights_end(view, is_final=False), *removals))
    return steps.plan()


def _held_until(view: View, workers: list[PodView]) -> float:
    """Return until when, at most, the launcher's program needs the workers, or the hub, to end what is left in them."""
    until = max((_ends_by(view, pod) for pod in view.launchers if launcher.runs(view, pod)), default=0.0)
    ending = [_ends_by(view, pod) + _HUB_END_S for pod in view.launchers if idling.is_ending(view, pod)]
    return max(until, *ending) if ending and idling.are_idle(view, workers) else until


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
        elif "deletionTimestamp" in part(job, "metadata"):
            asked_at = seconds(part(job, "metadata").get("deletionTimestamp"))
    spec = part(view.job.launcher.template, "spec")
    grace = spec.get("terminationGracePeriodSeconds")
    return (asked_at or view.now) + (grace if isinstance(grace, int) else _GRACE_S) + _DELAY_S
