"""A suspended job: it has no pods, and nothing of it waits for any. Resumed, it is made anew from its templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.conditions import Type
from agents.job.status import Counts, Draft, Urgency
from agents.operator.planning import ended, resources, tasks
from agents.operator.planning.writing import Steps

if TYPE_CHECKING:
    from agents.operator.actions import Plan
    from agents.operator.planning.view import View


def plan(view: View) -> Plan:
    """Plan for a job that is to have no pods."""
    draft = Draft(view.job, view.observed.resource, view.now)
    draft.created(starts=False)
    draft.suspended()
    draft.forget((Type.WORKERS_READY, Type.WORKERS_OUTDATED, Type.CREATION_REFUSED, Type.RESOURCE_EXISTS))
    draft.forget((Type.VALIDATION_ERROR, Type.TRANSPORT_NOT_SUPPORTED, Type.RESTARTING, Type.LAUNCHER_WAITING))
    launcher, worker = (
        Counts(active=sum(pod.phase == "Running" for pod in pods)) for pods in (view.launchers, view.workers.values())
    )
    # Kueue gives what the job had to another one when none is active.
    urgency = Urgency.LOW if launcher.active + worker.active else Urgency.AT_ONCE
    draft.counts(launcher, worker, f"{view.ready}/{len(view.wanted)}", urgency)
    tasks.tell(view, draft)
    steps = Steps(view, draft)
    steps.add([*ended.launcher_end(view, "suspended"), *resources.pod_group_end(view), *_workers(view, steps)])
    return steps.plan()


def _workers(view: View, steps: Steps) -> tuple[ended.Removal, ...]:
    """One request for all only behind a status write: a stale plan must not meet the workers of a resumed job."""
    present = [pod for pod in view.workers.values() if not pod.is_going]
    if steps.is_written:
        return ended.removal(present, present, "suspended")
    return tuple(one for pod in present for one in ended.removal([pod], present, "suspended"))
