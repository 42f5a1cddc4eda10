"""Decides what to do about one MPIJob. Pure: it changes nothing, and the same input gives the same plan.

The first row that holds decides:

| the job | what is done | in |
|---|---|---|
| is left to another operator that was seen | condition OtherOperator | `leave` |
| is being deleted, `managedBy` another controller, or its status is another operator's | nothing* | here |
| has ended, as its status says | its pods are cleaned up, and its ttl kept | `planning.ended` |
| can't be read | event and condition ValidationError, until it is edited* | here |
| its launcher has ended | the status reports it; then as above | `planning.active` |
| is suspended, or resumed with old pods | launcher, then workers and PodGroup go | `planning.suspended` |
| must run | what it needs is created and kept | `planning.active` |

*: but its launcher's rights to workers that are gone end.

`planning.launcher` has the table of the launcher's ends and retries, `planning.workers` that of the workers, and
`planning.ended` the meaning of cleanPodPolicy.

A job that has pods is planned with the transport, dialect and shared settings that they were made with
(`planning.pinned`).

What makes it safe to plan from caches that lag: a pod is made under its fixed name, and a batch Job as well, so none is
made twice; the first step of a plan that makes any writes the status at the version that was read, of a new job in a
dry run, so that a stale plan ends there; what is deleted is deleted by its uid; and all workers at once only if the job
has ended, or behind a write. An action that the API server rejects ends the plan after its step; the next plan knows
(`Observed.rejected`, `name_conflicts`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import Object, part
from agents.job.model import PREFIX, Job, Problem, is_virtual
from agents.job.read import is_managed_elsewhere
from agents.job.run_mode import effective
from agents.job.status import StatusBuilder, conditions_of, has_begun, is_finished, seconds
from agents.operator.actions import Plan, WriteStatus
from agents.operator.planning import active, ended, launcher, pinned, resources, suspended
from agents.operator.planning.launcher import Stage
from agents.operator.planning.status import first_write_at, is_written
from agents.operator.planning.view import Observed, View
from agents.operator.settings import PodSettings

OTHER_OPERATOR_MANAGER = "mpi-agents-leaving"  # the field manager for status writes to jobs that are left to others
_PROBLEMS_MAX = 16  # in the message: a status of megabytes would be rejected
_PROBLEM_MAX = 1024  # characters of each
LEAVES_AFTER_S = 5  # an operator that takes the job has written its status by then, and nothing needs to be said


def plan(job: Job | tuple[Problem, ...], observed: Observed, settings: PodSettings, now: float) -> Plan:
    """Return what to do about this job at `now` (epoch seconds)."""
    resource = observed.resource
    if not is_ours(resource):
        return Plan(resources.rights_lost(observed))
    job, differing = pinned.pin(job, observed)
    if isinstance(job, tuple):
        reported = Plan() if is_finished(resource) else _invalid(job, observed, now)
        return Plan((*resources.rights_lost(observed), *reported.steps), reported.requeue_at)
    was_paused = conditions.find(conditions_of(resource), Type.SUSPENDED) is not None
    view = View(effective(job, is_resumed=was_paused), observed, settings, now, differing, job)
    if is_finished(resource):
        return ended.plan(view)
    found = launcher.state_of(view)
    if view.is_stopping and found.stage is Stage.ENDING:
        return Plan()  # its success is known when its hub has ended
    if view.is_stopping and found.stage is not Stage.SUCCEEDED:
        return suspended.plan(view)
    return active.plan(view, found)


def is_ours(resource: Object) -> bool:
    """Whether this operator may act on the job: no other controller manages it or has written its status."""
    metadata = part(resource, "metadata")
    if metadata.get("deletionTimestamp") or is_managed_elsewhere(resource):
        return False
    return not has_begun(resource) or is_written(resource)


def leave_to_others(job: Job | tuple[Problem, ...], resource: Object, others: Collection[str], now: float) -> Plan:
    """Return the plan for a job that is left to other operators: a condition, or nothing if one of them has started it.

    It is written under another name than what makes a job ours (`is_ours`), and is no condition that would make it
    theirs either.
    """
    metadata = part(resource, "metadata")
    if not others or metadata.get("deletionTimestamp") or is_managed_elsewhere(resource) or has_begun(resource):
        return Plan()
    made_at = seconds(metadata.get("creationTimestamp")) or 0.0
    if 0 <= now - made_at < LEAVES_AFTER_S:
        return Plan((), made_at + LEAVES_AFTER_S)
    seen = (re.sub("(.*) (.*)/(.*)", r"\1 \3 in namespace \2", one) for one in sorted(others))
    managed = "" if is_virtual(resource) else f"with runPolicy.managedBy {PREFIX}operator, or "
    message = (
        f"The job is left to another operator for MPIJobs, seen by its {' and '.join(seen)}. To have it run"
        f" here: stop that operator, or create the job {managed}with the label"
        f" {PREFIX}adopt=true if that operator leaves it alone (docs/moving.md)"
    )
    builder = StatusBuilder(job if isinstance(job, Job) else None, resource, now)
    builder.report(Type.OTHER_OPERATOR, True, "OtherOperator", message)
    return _write(builder, resource, now, "the job is left to another operator", OTHER_OPERATOR_MANAGER)


def _invalid(problems: tuple[Problem, ...], observed: Observed, now: float) -> Plan:
    more = f" and {len(problems) - _PROBLEMS_MAX} more" if len(problems) > _PROBLEMS_MAX else ""
    named = ", ".join(str(one)[:_PROBLEM_MAX] for one in problems[:_PROBLEMS_MAX])
    message = f"Found validation errors: [{named}{more}]"
    builder = StatusBuilder(None, observed.resource, now)
    builder.remove_conditions([Type.OTHER_OPERATOR, *conditions.NOT_READY])
    builder.report(Type.VALIDATION_ERROR, True, "ValidationError", message)
    return _write(builder, observed.resource, now, "the job can't be read", seen_at=observed.seen_at)


def _write(
    builder: StatusBuilder, resource: Object, now: float, why: str, manager: str = "", *, seen_at: float = 0.0
) -> Plan:
    """Return the plan that writes the conditions that were set, if they are new."""
    if not builder.urgency:
        return Plan()
    if first_at := first_write_at(None, resource, builder, now, seen_at):
        return Plan((), first_at)
    version = str(part(resource, "metadata").get("resourceVersion", ""))
    write = WriteStatus(builder.build(), version, why, manager)
    return Plan(((write,), *([tuple(builder.events)] if builder.events else [])))
