"""An ended job: which pods go, and when the job itself does.

| cleanPodPolicy | workers | launcher |
|---|---|---|
| None | stay | stays |
| Running | those not ended go | stays, unless it has not ended (below) |
| All | go | goes; T9k: as with Running |

v1 as training-operator has it, where All takes the launcher too, and v2beta1 (whose All kept the launcher) likewise.
T9k's `cleanUpWorkers` is All, and its document sends the user to the launcher's log to learn how the job ended.
A launcher that has not ended when its job has (past its deadline or backoffLimit) goes whatever the policy; in v1 the
running workers then go as well, as in training-operator's core. One whose program has ended, but which another
container keeps Running, has a minute to end before it is taken away: its log goes with it. The PodGroup goes
unless pods may be left running. All that comes after the status that says how the job ended was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.model import CleanPodPolicy, Dialect
from agents.job.status import BACKOFF_LIMIT_EXCEEDED, DEADLINE_EXCEEDED, Draft
from agents.operator.actions import Delete, DeleteWorkers, Plan
from agents.operator.kinds import BATCH_JOB, MPI_JOB_T9K, MPI_JOB_V1, MPI_JOB_V2BETA1, POD
from agents.operator.planning import launcher, resources, tasks
from agents.operator.planning.values import mapping
from agents.operator.planning.writing import Steps

if TYPE_CHECKING:
    from agents.operator.planning.pods import PodView
    from agents.operator.planning.view import View

Removal = Delete | DeleteWorkers

_KINDS = {kind.api_version: kind for kind in (MPI_JOB_V1, MPI_JOB_V2BETA1, MPI_JOB_T9K)}
_END_GRACE_S = 60  # for a launcher pod to end after its program has: sidecars are told to first


def plan(view: View) -> Plan:
    """Plan for a job whose status says that it has ended."""
    completed = view.time("completionTime")
    ttl_s = view.job.policy.ttl_s
    expires = None if ttl_s is None or completed is None else completed + ttl_s
    if expires is not None and expires <= view.now:
        kind = _KINDS.get(view.job.api_version, MPI_JOB_V2BETA1)
        return Plan(((Delete(kind, view.job.name, view.job.uid, "ttlSecondsAfterFinished is over"),),))
    draft = Draft(view.job, view.observed.resource, view.now)
    tasks.tell(view, draft, launcher.failed_before(view))
    steps = Steps(view, draft)
    removals, again_at = clean(view, reason(view))
    steps.add(removals)
    steps.again(expires)
    steps.again(again_at)
    return steps.plan()


def reason(view: View) -> str:
    """Why the job failed; "" if it succeeded."""
    if conditions.is_true(view.conditions, Type.SUCCEEDED):
        return ""
    failed = conditions.find(view.conditions, Type.FAILED)
    return "" if failed is None else str(failed.get("reason", ""))


def clean(view: View, failed: str) -> tuple[tuple[Removal, ...], float | None]:
    """Return what is to be deleted of a job that ended (`failed`: the reason), and when more will be."""
    policy = view.job.policy.clean_pods
    is_cut_off = failed == DEADLINE_EXCEEDED or failed.startswith(BACKOFF_LIMIT_EXCEEDED)
    if policy is CleanPodPolicy.NONE and is_cut_off and view.job.dialect is Dialect.V1:
        policy = CleanPodPolicy.RUNNING
    launchers, again_at = _launcher(view, policy)
    group = resources.pod_group_end(view) if policy is not CleanPodPolicy.NONE else ()
    return (*_workers(view, policy), *launchers, *group), again_at


def _workers(view: View, policy: CleanPodPolicy) -> tuple[Removal, ...]:
    present = [pod for pod in view.workers.values() if not pod.is_going]
    if policy is CleanPodPolicy.NONE:
        return ()
    going = [pod for pod in present if policy is CleanPodPolicy.ALL or not pod.is_over]
    return removal(going, present, f"cleanPodPolicy {policy}")


def removal(going: list[PodView], present: list[PodView], why: str) -> tuple[Removal, ...]:
    """Return the deletion of workers: by one request if none is to stay."""
    if len(going) > 1 and len(going) == len(present):
        return (DeleteWorkers(why),)
    return tuple(Delete(POD, pod.name, pod.uid, why) for pod in going)


def _launcher(view: View, policy: CleanPodPolicy) -> tuple[tuple[Delete, ...], float | None]:
    if policy is CleanPodPolicy.ALL and view.job.dialect is not Dialect.T9K:
        return launcher_end(view, "cleanPodPolicy All"), None
    containers, restart = view.launcher_containers, view.job.launcher.restart_policy
    again_at = None
    for pod in view.launchers:
        if pod.is_going or pod.is_over:
            continue
        end = pod.end(containers, restart)
        if end is None:
            return launcher_end(view, "the job has ended, and its launcher goes on"), None
        if policy is not CleanPodPolicy.NONE:
            at = (end.at or pod.created_at) + _END_GRACE_S
            if at <= view.now:
                return launcher_end(view, "its program has ended, and another container keeps it running"), None
            again_at = at
    return (), again_at


def launcher_end(view: View, why: str) -> tuple[Delete, ...]:
    """Return the deletion of the launcher: its batch Job, which takes its pods along, or its pod."""
    job = view.observed.launcher_job
    if job is not None:
        metadata = mapping(job.get("metadata"))
        if metadata.get("deletionTimestamp"):
            return ()
        return (Delete(BATCH_JOB, str(metadata.get("name")), str(metadata.get("uid")), why),)
    if not view.job.dialect.has_launcher_pod:
        return ()  # the garbage collector has them
    return tuple(Delete(POD, pod.name, pod.uid, why) for pod in view.launchers if not pod.is_going)
