"""A job that is to run: everything it needs is made and kept, until its launcher has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.model import Dialect
from agents.job.status import EVICTED, FAILED, Counts, Draft, Event
from agents.operator import objects
from agents.operator.actions import Create, CreateKeys, Delete, Emit, Patch, Plan
from agents.operator.kinds import BATCH_JOB, POD, ROLE_BINDING
from agents.operator.planning import debugging, ended, launcher, losses, notes, refusals, resources, tasks, workers
from agents.operator.planning.launcher import Stage
from agents.operator.planning.values import mapping
from agents.operator.planning.writing import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.operator.actions import Action
    from agents.operator.planning.launcher import Launcher
    from agents.operator.planning.view import View


def plan(view: View, found: Launcher) -> Plan:
    """Plan for a job that has not ended."""
    draft = Draft(view.job, view.observed.resource, view.now)
    is_new = conditions.find(view.conditions, Type.CREATED) is None
    draft.created(starts=True)
    if is_new:
        draft.events += _warnings(view)
        draft.forget(conditions.HOLDING_UP)
    draft.resumed()
    change = workers.changes(view)
    if change.failure and found.stage not in (Stage.SUCCEEDED, Stage.FAILED):
        found = launcher.Launcher(Stage.FAILED, Counts(failed=found.counts.failed), None, FAILED, change.failure)
    if found.stage in (Stage.SUCCEEDED, Stage.FAILED):
        return _end(view, draft, found)
    if found.stage is Stage.RETRY:
        draft.restarting(found.why)
    elif found.stage is Stage.RUNNING and _running(view) == len(view.wanted):
        draft.running()
    draft.counts(found.counts, _worker_counts(view), f"{view.ready}/{len(view.wanted)}")
    tasks.tell(view, draft, found.counts.failed)
    needed = resources.changes(view)
    pods = [*_launcher(view, found), *change.creates]
    if not needed and _is_complete(view, found):
        draft.initialized()
    notes.tell_rbac(view, draft)
    debugging.tell(view, draft, found)
    if not is_new:
        notes.tell(view, draft, found, change.outdated)
        refusals.tell(view, draft, [one for one in (*needed, *pods) if not isinstance(one, Patch)])
    return _steps(view, Steps(view, draft), found, change, needed, pods)


def _steps(
    view: View,
    steps: Steps,
    found: Launcher,
    change: workers.Changes,
    needed: Sequence[Create | CreateKeys | Patch],
    pods: Sequence[Create],
) -> Plan:
    first: list[Action] = [*needed, *change.deletes]
    if change.evicted:
        words = f"{change.evicted}/{len(view.wanted)} workers are evicted"
        first.append(Emit("Warning", EVICTED, words))
    if found.stage is Stage.RETRY and found.pod is not None:
        first.append(Delete(POD, found.pod.name, found.pod.uid, f"replaced: {found.why}"))
    first += _kept_from_failing(view)
    taken = view.observed.taken
    first = [one for one in first if not isinstance(one, Create | CreateKeys) or _key(one) not in taken]
    # Who has not all rights can bind a Role only when it is there: the API server looks what is in it.
    bindings = [one for one in first if isinstance(one, Create) and one.kind is ROLE_BINDING]
    steps.add([one for one in first if one not in bindings])
    if not taken:
        steps.add([*bindings, *pods])
    if left_over := resources.left_over(view):
        steps.write()  # a stale plan must not meet the launcher of a job that has gone back to exec
        steps.add(left_over)
    steps.again(found.may_start_at)
    steps.again(launcher.deadline(view))
    steps.again(change.again_at)
    for pod in (*view.workers.values(), *view.launchers):
        steps.again(pod.stuck_at)
    return steps.plan()


def _launcher(view: View, found: Launcher) -> list[Create]:
    """Return the launcher's creation, if it is time for it."""
    kind = POD if view.job.dialect.has_launcher_pod else BATCH_JOB
    if found.stage is not Stage.ABSENT or found.may_start_at > view.now:
        return []
    if view.is_faulty(kind, view.job.launcher_name):
        return []
    if view.job.launcher_waits and view.ready < len(view.wanted):
        return []
    return [Create(kind, objects.launcher(view.job, view.settings), "wanted and not there")]


def _kept_from_failing(view: View) -> list[Delete]:
    """Return pods of the launcher's Job whose program has failed and which another container keeps Running.

    The Job would never count them as failed.
    """
    if view.job.dialect.has_launcher_pod:
        return []
    restart = view.job.launcher.restart_policy
    ends = [(pod, pod.end(view.launcher_containers, restart)) for pod in view.launchers]
    return [
        Delete(POD, pod.name, pod.uid, f"its Job is to count it as failed: {end.words}")
        for pod, end in ends
        if end is not None and not end.is_success and not pod.is_over and not pod.is_going
    ]


def _end(view: View, draft: Draft, found: Launcher) -> Plan:
    at = view.now if found.ended_at is None else min(found.ended_at, view.now)
    if found.stage is Stage.SUCCEEDED:
        draft.succeeded(at, losses.told(view, found.pod))
    else:
        draft.failed(at, found.reason, found.message + losses.first_failure(view))
    draft.counts(found.counts, Counts(), "")
    tasks.tell(view, draft, found.counts.failed)
    steps = Steps(view, draft)
    removals, again_at = ended.clean(view, "" if found.stage is Stage.SUCCEEDED else found.reason)
    steps.add(removals)
    steps.again(again_at)
    return steps.plan()


def _is_complete(view: View, found: Launcher) -> bool:
    """Whether all pods have been made, but for a launcher that waits for them."""
    has_launcher = found.stage is not Stage.ABSENT or view.job.launcher_waits
    return has_launcher and all(index in view.workers for index in view.wanted)


def _running(view: View) -> int:
    return sum(index in view.workers and view.workers[index].phase == "Running" for index in view.wanted)


def _worker_counts(view: View) -> Counts:
    phases = [view.workers[index].phase for index in view.wanted if index in view.workers]
    return Counts(phases.count("Running"), phases.count("Succeeded"), phases.count("Failed"))


def _warnings(view: View) -> list[Event]:
    """Return what is told once of a job's templates."""
    found = []
    roles = (view.job.launcher, view.job.worker)
    if any(mapping(role.template.get("spec")).get("restartPolicy") for role in roles):
        is_v1 = view.job.dialect is Dialect.V1
        reason = "SettedPodTemplateRestartPolicy" if is_v1 else "SetPodTemplateRestartPolicy"
        words = "Restart policy in pod template overridden by restart policy in replica spec"
        found.append(Event("Warning", reason, words))
    if objects.has_api_token(view.job):
        words = (
            "automountServiceAccountToken is true: the user's container has the launcher's token, and what runs in it"
            " may do what its Role allows, exec into all workers of this job included"
        )
        found.append(Event("Warning", "ServiceAccountTokenMounted", words))
    return found


def _key(action: Create | CreateKeys) -> tuple[str, str]:
    return action.kind.name, str(action.body["metadata"]["name"])
