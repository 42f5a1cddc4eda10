"""Plans an ended job: which pods are deleted, and when the job itself is.

| cleanPodPolicy | workers | launcher |
|---|---|---|
| None | stay | stays |
| Running | those not ended go | stays, unless it has not ended (below) |
| All | go | goes; T9k: as with Running |

v1 as training-operator has it, where All takes the launcher too, and v2beta1 (whose All kept the launcher) likewise.
T9k's `cleanUpWorkers` is All, and its document sends the user to the launcher's log to learn how the job ended.
A launcher that has not ended when its job has (past its deadline or backoffLimit) goes whatever the policy; in v1 the
running workers then go as well, as in training-operator's core. One whose program has ended, but which another
container keeps Running, has a minute to end before it is deleted: its log goes with it. The PodGroup goes
unless pods may be left running. All that comes after the status that says how the job ended was written.

Workers that only wait (`planning.idling`) go a moment later, when the launcher's hub has ended what was left in them,
with a short grace period: the kubelet can't shorten it when it has started to terminate a pod.
"""

from __future__ import annotations

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.model import CleanPodPolicy, Dialect
from agents.job.status import BACKOFF_LIMIT_EXCEEDED, DEADLINE_EXCEEDED, StatusBuilder, seconds
from agents.kube.kinds import BATCH_JOB, MPI_JOB_T9K, MPI_JOB_V1, MPI_JOB_V2BETA1, POD
from agents.operator.actions import Delete, DeleteWorkers, Plan
from agents.operator.planning import idling, launcher, own_conditions, resources, status
from agents.operator.planning.pods import PodView
from agents.operator.planning.status import Steps
from agents.operator.planning.view import View

Removal = Delete | DeleteWorkers

_KINDS = {kind.api_version: kind for kind in (MPI_JOB_V1, MPI_JOB_V2BETA1, MPI_JOB_T9K)}
_END_GRACE_S = 60  # for a launcher pod to end after its program has: its sidecars are terminated first
_LAUNCHER_END_S = 35  # for it and its hub, in which waiting workers are kept: a default grace period, and a bit


def plan(view: View) -> Plan:
    """Plan for a job whose status says that it has ended."""
    completed = view.time("completionTime")
    ttl_s = view.job.policy.ttl_s
    expires = None if ttl_s is None or completed is None else completed + ttl_s
    if expires is not None and expires <= view.now:
        kind = _KINDS.get(view.job.api_version, MPI_JOB_V2BETA1)
        return Plan(((Delete(kind, view.job.name, view.job.uid, "ttlSecondsAfterFinished has expired"),),))
    builder = StatusBuilder(view.job, view.observed.resource, view.now)
    status.set_tasks(view, builder, launcher.failed_before(view))
    failure = reason(view)
    if not failure:
        own_conditions.set_unused(view, builder, view.launchers[-1] if view.launchers else None)
    steps = Steps(view, builder)
    removals, requeue_at = clean(view, failure, _noticed_at(view))
    steps.add((*resources.rights_end(view, is_final=True), *removals))
    steps.requeue_at(expires)
    steps.requeue_at(requeue_at)
    return steps.plan()


def reason(view: View) -> str:
    """Why the job failed; "" if it succeeded."""
    if conditions.is_true(view.conditions, Type.SUCCEEDED):
        return ""
    failed = conditions.find(view.conditions, Type.FAILED)
    return "" if failed is None else str(failed.get("reason", ""))


def _noticed_at(view: View) -> float:
    """Return when the status first said that the job had ended: a kubelet may be late to say it."""
    ends = (conditions.find(view.conditions, kind) for kind in (Type.SUCCEEDED, Type.FAILED))
    return max((seconds(one.get("lastTransitionTime")) or 0.0 for one in ends if one is not None), default=0.0)


def clean(view: View, failed: str, noticed_at: float) -> tuple[tuple[Removal, ...], float | None]:
    """Return which objects of an ended job to delete now, and when to delete more. `failed`: the reason."""
    policy = view.job.policy.clean_pods
    is_cut_off = failed == DEADLINE_EXCEEDED or failed.startswith(BACKOFF_LIMIT_EXCEEDED)
    if policy is CleanPodPolicy.NONE and is_cut_off and view.job.dialect is Dialect.V1:
        policy = CleanPodPolicy.RUNNING
    launchers, requeue_at = _launcher(view, policy)
    workers, kept_until = _workers(view, policy, noticed_at + _LAUNCHER_END_S)
    group = resources.pod_group_end(view) if policy is not CleanPodPolicy.NONE else ()
    times = [at for at in (requeue_at, kept_until) if at is not None]
    return (*workers, *launchers, *group), min(times, default=None)


def _workers(view: View, policy: CleanPodPolicy, until: float) -> tuple[tuple[Removal, ...], float | None]:
    """Return the deletion of workers, or until when, at most, they are kept for their launcher to end in them."""
    present = [pod for pod in view.workers.values() if not pod.is_going]
    if policy is CleanPodPolicy.NONE:
        return (), None
    going = [pod for pod in present if policy is CleanPodPolicy.ALL or not pod.is_over]
    left = [pod for pod in view.launchers if not pod.is_over]
    if view.now < until and left and idling.are_idle(view, going) and all(idling.is_ending(view, pod) for pod in left):
        return (), until
    return removal(view, going, present, f"cleanPodPolicy {policy}"), None


def removal(view: View, going: list[PodView], present: list[PodView], why: str) -> tuple[Removal, ...]:
    """Return the deletion of workers: by one request if none is to stay, and at once if they only wait."""
    grace_s = idling.GRACE_S if idling.is_launcher_gone(view) and idling.are_idle(view, going) else None
    if len(going) > 1 and len(going) == len(present):
        return (DeleteWorkers(why, grace_s),)
    return tuple(Delete(POD, pod.name, pod.uid, why, grace_s) for pod in going)


def _launcher(view: View, policy: CleanPodPolicy) -> tuple[tuple[Delete, ...], float | None]:
    if policy is CleanPodPolicy.ALL and view.job.dialect is not Dialect.T9K:
        return launcher_end(view, "cleanPodPolicy All"), None
    requeue_at = None
    for pod in view.launchers:
        if pod.is_going or pod.is_over:
            continue
        end = view.launcher_end(pod)
        if end is None:
            return launcher_end(view, "the job has ended, but its launcher is still running"), None
        if policy is not CleanPodPolicy.NONE:
            at = (end.at or pod.created_at) + _END_GRACE_S
            if at <= view.now:
                return launcher_end(view, "its program has ended, but another container keeps it running"), None
            requeue_at = at
    return (), requeue_at


def launcher_end(view: View, why: str) -> tuple[Delete, ...]:
    """Return the deletion of the launcher: its batch Job, which takes its pods along, or its pod."""
    if view.observed.launcher_job is not None:
        return resources.deletion(BATCH_JOB, view.observed.launcher_job, why)
    if not view.job.dialect.has_launcher_pod:
        return ()  # the garbage collector has them
    return tuple(Delete(POD, pod.name, pod.uid, why) for pod in view.launchers if not pod.is_going)
