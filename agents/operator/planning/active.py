"""Plans a running job: creates and maintains all its objects until its launcher has ended."""

from __future__ import annotations

from collections.abc import Sequence

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import part
from agents.job.model import Dialect, Transport
from agents.job.status import EVICTED, FAILED, Counts, Event, StatusBuilder, Urgency
from agents.kube.kinds import BATCH_JOB, POD, ROLE_BINDING
from agents.operator import objects
from agents.operator.actions import Action, Create, Delete, Patch, Plan
from agents.operator.planning import (
    attempts,
    ended,
    held,
    launcher,
    lost_workers,
    own_conditions,
    resources,
    status,
    virtual_cluster,
    workers,
)
from agents.operator.planning.launcher import Launcher, Stage
from agents.operator.planning.status import Steps
from agents.operator.planning.view import View

_RESTART_POLICY = "Restart policy in pod template overridden by restart policy in replica spec"
_API_ACCESS = (
    "automountServiceAccountToken is true: the user's container has the launcher's token, and what runs in it"
    " may do what its Role allows, exec into all workers of this job included"
)
_PROCESSES_SHARED = (
    "the launcher shares its process namespace (shareProcessNamespace, hostPID): what runs in the user's"
    " container with CAP_SYS_PTRACE can take the launcher's token from the processes of the hub and delivery"
)


def plan(view: View, found: Launcher) -> Plan:
    """Plan for a job that has not ended."""
    builder = StatusBuilder(view.job, view.observed.resource, view.now)
    is_new = conditions.find(view.conditions, Type.CREATED) is None
    # A new job's status is first written after its pods were made.
    made_at = min((pod.created_at for pod in (*view.workers.values(), *view.launchers)), default=view.now)
    builder.created(starts=True, since=min(made_at, view.now) if is_new else None)
    if is_new or conditions.is_true(view.conditions, Type.SUSPENDED):  # one that begins suspended is not new here
        builder.events += [*_warnings(view), *_fallback(view)]
    if is_new:
        builder.remove_conditions(conditions.BLOCKING)
    builder.resumed()
    change = workers.changes(view)
    if change.failure and found.stage not in (Stage.SUCCEEDED, Stage.FAILED):
        found = launcher.Launcher(Stage.FAILED, Counts(failed=found.counts.failed), None, FAILED, change.failure)
    if found.stage in (Stage.SUCCEEDED, Stage.FAILED):
        return _end(view, builder, found)
    if found.stage is Stage.RETRY:
        builder.restarting(found.why)
    phases = [view.workers[index].phase for index in view.wanted if index in view.workers]
    workers_now = Counts(phases.count("Running"), phases.count("Succeeded"), phases.count("Failed"))
    if found.stage is Stage.RUNNING and workers_now.active == len(view.wanted):
        builder.running()
    builder.counts(found.counts, workers_now, f"{view.ready}/{len(view.wanted)}")
    builder.interruptions(launcher.interruptions_before(view) + found.interruptions)
    _list_attempts(view, builder)
    status.set_tasks(view, builder, found.counts.failed)
    needed = resources.changes(view)
    made = [] if view.observed.name_conflicts else change.creates
    rights = resources.role(view, [one.name for one in made])
    starts = _launcher(view, found, change)
    if not needed and rights == (None, None) and _is_complete(view, found):
        builder.initialized()
    own_conditions.set_ignored(view, builder)
    own_conditions.set_rbac(view, builder)
    own_conditions.set_debugging(view, builder, found)
    virtual_cluster.set_dvm(view, builder)
    if not is_new or view.workers or view.launchers or view.observed.rejected or view.observed.name_conflicts:
        own_conditions.set_readiness(view, builder, found, change.outdated)
        creates = (*needed, *rights, *starts, *change.creates)
        own_conditions.set_rejections(view, builder, [one for one in creates if isinstance(one, Create)])
        held.set_held(view, builder, found)
    return _steps(view, Steps(view, builder), found, change, (needed, rights, starts))


def _steps(
    view: View,
    steps: Steps,
    found: Launcher,
    change: workers.Changes,
    wanted: tuple[Sequence[Create | Patch], tuple[Patch | None, Create | Patch | None], Sequence[Create]],
) -> Plan:
    needed, (fewer, rights), starts = wanted
    first: list[Action] = [*needed, *([fewer] if fewer else []), *change.deletes]
    if change.evicted:
        message = f"{change.evicted}/{len(view.wanted)} workers are evicted"
        first.append(Event("Warning", EVICTED, message))
    if found.stage is Stage.RETRY:
        first += ended.launcher_end(view, f"replaced: {found.why}")
    first += _kept_running(view, steps)
    conflicts = view.observed.name_conflicts
    first = [one for one in first if not isinstance(one, Create) or (one.kind.name, one.name) not in conflicts]
    bindings = [one for one in first if isinstance(one, Create) and one.kind is ROLE_BINDING]
    steps.add([one for one in first if one not in bindings])
    if not conflicts and view.job.transport is Transport.SSH:
        steps.add([*starts, *change.creates])
    elif not conflicts:
        # The Role names pods, so they are created before it; and a launcher has no rights beyond this job. Unless we
        # have all rights, we can bind a Role only when it exists: the API server checks its rules.
        for step in (change.creates, [rights] if rights else [], bindings, [] if fewer else starts):
            steps.add(step)
    if unused := resources.unused_rights(view):
        steps.write()  # a stale plan must not meet the launcher of a job that has gone back to exec
        steps.add(unused)
    steps.requeue_at(found.may_start_at)
    steps.requeue_at(found.known_by)
    steps.requeue_at(launcher.deadline(view))
    steps.requeue_at(change.requeue_at)
    for pod in (*view.workers.values(), *view.launchers):
        steps.requeue_at(pod.stuck_at)
    return steps.plan()


def _launcher(view: View, found: Launcher, change: workers.Changes) -> list[Create]:
    """Return the launcher's creation, if it is time for it: with exec not before a worker that this plan leaves out."""
    kind = POD if view.job.dialect.has_launcher_pod else BATCH_JOB
    if found.stage is not Stage.ABSENT or found.may_start_at > view.now:
        return []
    if view.is_invalid(kind, view.job.launcher_name):
        return []
    if view.job.launcher_waits and (view.ready < len(view.wanted) or (view.job.dialect.never_ends and change.deletes)):
        return []
    missing = {view.job.worker_name(index) for index in view.wanted if index not in view.workers}
    if view.job.transport is Transport.EXEC and missing - {one.name for one in change.creates}:
        return []
    return [Create(kind, objects.launcher(view.job, view.settings), "missing")]


def _kept_running(view: View, steps: Steps) -> list[Delete]:
    """Return pods of the launcher's Job whose program has failed and which another container keeps Running.

    Otherwise the Job would never count them as failed. Sidecars of Kubernetes' own kind are ended by the kubelet.
    """
    if view.job.dialect.has_launcher_pod:
        return []
    deletes = []
    for pod in view.launchers:
        end = view.launcher_end(pod)
        if end is None or end.is_success or pod.is_over or pod.is_going or pod.has_ended:
            continue
        if view.now < (at := pod.may_be_deleted_at(end.at)):
            steps.requeue_at(at)
        else:
            deletes.append(Delete(POD, pod.name, pod.uid, f"so that its Job counts it as failed: {end.message}"))
    return deletes


def _end(view: View, builder: StatusBuilder, found: Launcher) -> Plan:
    at = view.now if found.ended_at is None else min(found.ended_at, view.now)
    if found.stage is Stage.SUCCEEDED:
        builder.succeeded(at, lost_workers.doubts(view, found.pod))
        own_conditions.set_unused(view, builder, found.pod)
    else:
        builder.failed(at, found.reason, found.message + lost_workers.first_failure(view))
    builder.counts(found.counts, Counts(), "")
    _list_attempts(view, builder)
    status.set_tasks(view, builder, found.counts.failed)
    steps = Steps(view, builder)
    removals, requeue_at = ended.clean(view, "" if found.stage is Stage.SUCCEEDED else found.reason, view.now)
    steps.add(removals)
    steps.requeue_at(requeue_at)
    return steps.plan()


def _list_attempts(view: View, builder: StatusBuilder) -> None:
    """List the failed ones at once: the kubelet remembers the last one of a container that it starts again.

    The first one comes with its condition: a CRD that doesn't know the field drops it, and each plan would write it.
    """
    if not view.job.dialect.never_ends and (failed := attempts.failed(view)):
        urgency = Urgency.AT_ONCE if attempts.FIELD in view.status else Urgency.NONE
        builder.fields({attempts.FIELD: failed}, urgency)


def _is_complete(view: View, found: Launcher) -> bool:
    """Whether all pods have been created, except a launcher that waits for them."""
    has_launcher = found.stage is not Stage.ABSENT or view.job.launcher_waits
    return has_launcher and all(index in view.workers for index in view.wanted)


def _fallback(view: View) -> list[Event]:
    """Return the event that says why the job's pods have an init container that copies our programs."""
    if not view.settings.fallback or not objects.copies_programs(view.job, view.settings):
        return []
    message = f"init containers copy our programs, as image volumes can't be used: {view.settings.fallback}"
    return [Event("Normal", "ProgramsCopied", message)]


def _warnings(view: View) -> list[Event]:
    """Return the events that report problems of a job's templates, once."""
    job = view.job
    has_policy = any(part(role.template, "spec").get("restartPolicy") for role in (job.launcher, job.worker))
    policy_reason = "SettedPodTemplateRestartPolicy" if job.dialect is Dialect.V1 else "SetPodTemplateRestartPolicy"
    found = (
        (policy_reason, _RESTART_POLICY if has_policy else ""),
        ("ServiceAccountTokenMounted", _API_ACCESS if objects.has_api_token(job) else ""),
        ("ProcessNamespaceShared", _PROCESSES_SHARED if objects.shares_processes(job) else ""),
        ("SchedulerIgnored", objects.ignored_scheduling(job, view.settings)),
    )
    return [Event("Warning", reason, message) for reason, message in found if message]
