"""The launcher's state, and whether one that ended is retried: in v1 it is a Pod, in v2beta1 a batch Job.

A pod that succeeded decides for both; a v2beta1 launcher has failed when its Job, which counts the tries, reports it.

A launcher whose program was terminated by something else than the job was interrupted, whatever its exit code: its pod
was being deleted (also by a drain), or is a DisruptionTarget, or the kubelet reports it. Its end says nothing about the
program: another launcher takes its place, and no limit counts it. In v2beta1 the Job does that by itself, and is
recreated if that would end it: as complete, or with its last try. What ended before the interruption counts.

With exec, a success waits for the hub's end, a second later, which reports whether ranks were lost: then the job fails
with RanksLost, permanently, unless it is elastic or `ranksLost` is Ignore (`planning.lost_workers`).

What happens to a v1 launcher pod that failed (backoffLimit counts new pods, except those of the first row, and
restarts in place as training-operator v1.9.3 counts them; without one there is no limit):

| how it failed | Never | OnFailure, Always | ExitCode |
|---|---|---|---|
| evicted, preempted, its node is gone | new pod | new pod | new pod |
| its program ended with 1 to 127 | job failed | in place, by the kubelet | job failed |
| its program ended with 128 or more | job failed | in place, by the kubelet | new pod |
| Failed although the kubelet restarts it (its own deadline) | job failed | job failed | job failed |

A new pod waits 10 s after the first failure, and twice as long after each further one, 6 minutes at most, as a Job's
does. How many have failed is `status.replicaStatuses.Launcher.failed`, and how many of these were interrupted
`status.launcherInterruptions`; the last one that was counted, or the Job that is recreated, is named by its uid in the
condition Restarting, so that a crash between counting and deleting counts none twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from agents.job import conditions
from agents.job.conditions import Type, messages_of, true_condition
from agents.job.json_object import Object, mappings, part
from agents.job.model import Dialect, RanksLost, RestartPolicy, Transport
from agents.job.status import (
    BACKOFF_LIMIT_EXCEEDED,
    DEADLINE_EXCEEDED,
    FAILED,
    INTERRUPTIONS,
    RANKS_LOST,
    Counts,
    cut,
    seconds,
)
from agents.operator.planning import attempts, lost_workers
from agents.operator.planning.pods import End, PodView
from agents.operator.planning.view import View

# Reasons of the condition LauncherWaiting between two of a Job's tries: the last one failed, or was interrupted.
TRIED, INTERRUPTED = "LauncherFailed", "LauncherInterrupted"
TRIED_AGAIN = "; its Job tries again"  # the end of its message

_FIRST_DELAY_S = 10
_LONGEST_DELAY_S = 360
_EVIDENCE_S = 3  # for a pod's exit to arrive after its Job's: they have separate watches


class Stage(Enum):
    """The launcher's state."""

    ABSENT = auto()  # and nothing is left of an earlier one
    STARTING = auto()
    RUNNING = auto()
    ENDING = auto()  # its program has succeeded, and the hub has not reported yet whether ranks were lost
    GOING = auto()  # being deleted
    RETRY = auto()  # it failed or was interrupted, and will be replaced: in v2beta1 by another Job
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Launcher:
    """The launcher's state. `reason` and `message` are for the job's end; `why` is how a pod ended."""

    stage: Stage
    counts: Counts
    pod: PodView | None = None  # the one that the rest is about
    reason: str = ""
    message: str = ""
    why: str = ""
    ended_at: float | None = None
    may_start_at: float = 0.0  # of a new pod after a failed one
    known_by: float | None = None  # when a failed Job's end is reported although that of its pod is not known
    interruptions: int = 0  # of a v1 pod that is counted as failed: how many more backoffLimit does not count
    tried: str = TRIED  # the reason of LauncherWaiting that goes with `why` between two of a Job's tries


def state_of(view: View) -> Launcher:
    """Return the launcher's state."""
    alive = [pod for pod in view.launchers if not _is_stopped(view, pod)]
    ended = [(pod, end) for pod in alive if (end := view.launcher_end(pod)) is not None]
    for pod, end in ended:
        if end.is_success and not pod.is_interrupted(end.at) and not view.job.dialect.never_ends:
            return _succeeded(view, pod, end)
    found = _state_of_pod(view) if view.job.dialect.has_launcher_pod else _state_of_job(view, ended)
    return found if found.stage is Stage.ENDING else _within_deadline(view, found)


def is_running(view: View) -> bool:
    """Whether a program of the launcher has been started and has not ended.

    With SSH its container may run and wait for the workers: then the job has to be Running.
    """
    if view.job.transport is Transport.SSH and not conditions.is_true(view.conditions, Type.RUNNING):
        return False
    return any(runs(view, pod) for pod in view.launchers)


def runs(view: View, pod: PodView) -> bool:
    """Whether this pod's program has been started and has not ended."""
    return pod.phase == "Running" and view.launcher_end(pod) is None


def deadline(view: View) -> float | None:
    """When the job must have ended: epoch seconds, None without a limit."""
    start, limit = view.time("startTime"), view.job.policy.active_deadline_s
    return None if start is None or limit is None else start + limit


def _within_deadline(view: View, found: Launcher) -> Launcher:
    until = deadline(view)
    if until is None or view.now < until or found.stage is Stage.FAILED:
        return found
    message = "Job was active longer than specified deadline"
    if view.job.dialect is Dialect.V1:
        message = f"Job {view.job.name} has failed because it was active longer than specified deadline"
    return Launcher(Stage.FAILED, found.counts, found.pod, DEADLINE_EXCEEDED, message)


def _succeeded(view: View, pod: PodView, end: End) -> Launcher:
    failed = failed_before(view)
    if _expects_rank_report(view) and pod.waits_for_hub:
        return Launcher(Stage.ENDING, Counts(active=1, failed=failed), pod)
    counts = Counts(succeeded=1, failed=failed)
    ranks = lost_workers.lost_ranks(view, pod) if view.job.ranks_lost is RanksLost.FAIL else ""
    if ranks:
        whose = "The job" if view.job.dialect is Dialect.T9K else f"MPIJob {view.job.namespace}/{view.job.name}"
        message = f"{whose} has failed: its launcher exited with 0, but ranks were lost while mpirun ran: {ranks}"
        return Launcher(Stage.FAILED, counts, pod, RANKS_LOST, message, ended_at=end.at)
    return Launcher(Stage.SUCCEEDED, counts, pod, ended_at=end.at)


def _expects_rank_report(view: View) -> bool:
    """Whether the hub's termination message matters."""
    return view.job.transport is Transport.EXEC and not lost_workers.is_elastic(view)


def _is_stopped(view: View, pod: PodView) -> bool:
    """Whether a suspension stops or stopped this pod, or it was in debug mode: its exit code 0 is no success."""
    return pod.is_going and (_is_stopping(view) or pod.created_at < (view.time("startTime") or 0.0))


def _is_stopping(view: View) -> bool:
    """Whether a launcher that is deleted has nothing to succeed in."""
    return view.is_stopping or conditions.is_true(view.conditions, Type.DEBUGGING)


def failed_before(view: View) -> int:
    """Return how many of the launcher's pods have failed, as the status counts them."""
    failed = part(view.status, "replicaStatuses", "Launcher").get("failed")
    return failed if isinstance(failed, int) else 0


def interruptions_before(view: View) -> int:
    """Return how many of those were interrupted."""
    found = view.status.get(INTERRUPTIONS)
    return found if isinstance(found, int) else 0


def _state_of_pod(view: View) -> Launcher:
    failed = failed_before(view)
    if not view.launchers:
        return Launcher(Stage.ABSENT, Counts(failed=failed), may_start_at=_may_start_at(view, failed))
    pod = view.launchers[-1]
    end = view.launcher_end(pod)
    if pod.is_going:
        return Launcher(Stage.GOING, Counts(failed=failed), pod)
    if end is not None and (view.job.dialect.never_ends or pod.is_interrupted(end.at)):
        more = int(pod.is_disrupted and not _is_counted(view, pod.uid))
        why = f"{_interruption(pod, end)} (uid {pod.uid})"
        return Launcher(Stage.RETRY, Counts(failed=failed + more), pod, why=why, interruptions=more)
    if end is not None:
        failed += not _is_counted(view, pod.uid)
        return _failed_pod(view, pod, end, failed)
    counts = Counts(active=int(pod.phase == "Running"), failed=failed)
    restarts = failed + pod.restarts(view.launcher_containers)
    if _is_past_limit(view, restarts):
        return _past_limit(view, pod, counts, attempts.last(view))
    stage = Stage.RUNNING if pod.phase == "Running" else Stage.STARTING
    return Launcher(stage, counts, pod)


def _failed_pod(view: View, pod: PodView, end: End, failed: int) -> Launcher:
    counts, why = Counts(failed=failed), end.message
    policy = view.job.launcher.restart_policy
    if policy is RestartPolicy.EXIT_CODE and end.exit_code is not None and end.exit_code >= 128:
        if _is_past_limit(view, failed):
            return _past_limit(view, pod, counts, why)
        return Launcher(Stage.RETRY, counts, pod, why=f"{why} (uid {pod.uid})")
    reason = pod.state.reason or FAILED
    failure = messages_of(view.job.dialect).failure.format(full=f"{view.job.namespace}/{view.job.name}")
    return Launcher(Stage.FAILED, counts, pod, reason, f"{failure}{why}", why, end.at)


def _past_limit(view: View, pod: PodView, counts: Counts, why: str) -> Launcher:
    summary = f"Job {view.job.name} has failed because it has reached the specified backoff limit"
    message = f"{summary}: {why}" if why else summary
    return Launcher(Stage.FAILED, counts, pod, BACKOFF_LIMIT_EXCEEDED, message, why)


def _is_past_limit(view: View, restarts: int) -> bool:
    """Whether that is too many: 0 allows none, and N fails the job with the Nth (training-operator's core/job.go)."""
    limit = view.job.policy.backoff_limit
    return limit is not None and restarts - interruptions_before(view) >= max(limit, 1)


def _is_counted(view: View, uid: str) -> bool:
    """Whether the status says that another one takes the place of this pod, or Job."""
    restarting = conditions.find(view.conditions, Type.RESTARTING)
    return restarting is not None and f"(uid {uid})" in str(restarting.get("message"))


def _interruption(pod: PodView, end: End) -> str:
    """Say how an interrupted launcher ended."""
    message = end.message or f"{pod.name} exited with 0"
    return f"{message}, while {pod.interruption[1]}" if pod.interruption and not pod.state.reason else message


def _may_start_at(view: View, failed: int) -> float:
    restarting = conditions.find(view.conditions, Type.RESTARTING)
    if restarting is None:
        return 0.0
    since = seconds(restarting.get("lastUpdateTime")) or 0.0
    return since + min(_FIRST_DELAY_S * 2.0 ** min(max(failed, 1) - 1, 10), _LONGEST_DELAY_S)


def _state_of_job(view: View, ended: Sequence[tuple[PodView, End]]) -> Launcher:
    job = view.observed.launcher_job
    last = view.launchers[-1] if view.launchers else None
    if job is None:
        return Launcher(
            Stage.GOING if view.launchers else Stage.ABSENT, Counts(), last, may_start_at=_may_start_at(view, 0)
        )
    status, metadata = part(job, "status"), part(job, "metadata")
    failed, uid, reported = status.get("failed"), str(metadata.get("uid")), mappings(status.get("conditions"))
    running = [pod for pod in view.launchers if pod.phase == "Running"]
    counts = Counts(active=len(running), failed=failed if isinstance(failed, int) else 0)
    is_going = bool(metadata.get("deletionTimestamp"))
    if why := _replaced(view, uid, ended, _failure(view, status)):
        return Launcher(Stage.GOING if is_going else Stage.RETRY, counts, last, why=why)
    complete, failure = true_condition(reported, "Complete"), _failure(view, status)
    if complete is not None and not (_is_stopping(view) and is_going):
        if _expects_rank_report(view) and last is not None and not last.is_over and not last.is_going:
            return Launcher(Stage.ENDING, counts, last)  # its pod is over as well: its watch has not reported it yet
        at = seconds(status.get("completionTime"))
        return Launcher(Stage.SUCCEEDED, Counts(succeeded=1, failed=counts.failed), ended_at=at)
    if failure is not None:
        newest = max(ended, key=lambda one: one[0].created_at, default=None)
        found = _failed_job(view, failure, newest, Counts(failed=counts.failed))
        known_by = (found.ended_at or 0.0) + _EVIDENCE_S
        has_failed = last is not None and (  # also if it was started again in place
            view.launcher_end(last) is not None or bool(last.failures(view.launcher_containers))
        )
        is_known = found.why and (last is None or last.is_going or has_failed)
        if is_known or not 0 < known_by - view.now <= 2 * _EVIDENCE_S:  # a clock that is far off delays nothing
            return found
        return replace(_trying(view, counts, ended), known_by=known_by)
    if is_going:
        return Launcher(Stage.GOING, counts, last)
    return _trying(view, counts, ended)


def _trying(view: View, counts: Counts, ended: Sequence[tuple[PodView, End]]) -> Launcher:
    alive = [pod for pod in view.launchers if not pod.is_over and all(pod is not one for one, _ in ended)]
    stage = Stage.RUNNING if counts.active else Stage.STARTING
    if alive:
        return Launcher(stage, counts, alive[-1])
    if not ended:
        reason, why = _reported(view)
        return Launcher(stage, counts, why=why, tried=reason or TRIED)
    pod, end = ended[-1]
    tried = INTERRUPTED if pod.is_interrupted(end.at) else TRIED
    return Launcher(stage, counts, why=end.message, tried=tried)


def _failure(view: View, status: Object) -> Object | None:
    """Return the Job's condition that says that it has failed.

    From Kubernetes 1.31 on it is Failed when its pods are gone, and why with them. Before, it says that it will be.
    """
    reported = mappings(status.get("conditions"))
    failure = true_condition(reported, "Failed")
    if failure is None and view.launchers and all(pod.is_going or pod.is_over for pod in view.launchers):
        return true_condition(reported, "FailureTarget")
    return failure


def _replaced(view: View, uid: str, ended: Sequence[tuple[PodView, End]], failure: Object | None) -> str:
    """Say why another Job takes this one's place; "" if none does: its last pod was interrupted, and ends it.

    The condition Restarting reports it once the pod is gone, and LauncherWaiting a last try.
    """
    if _is_counted(view, uid):
        restarting = conditions.find(view.conditions, Type.RESTARTING) or {}
        said = messages_of(view.job.dialect).restarting.message.format(name=view.job.name, why="")
        return str(restarting.get("message")).removeprefix(said)
    if ended and ended[-1][0] is view.launchers[-1]:
        pod, end = ended[-1]
        is_last = end.is_success or (failure is not None and failure.get("reason") == BACKOFF_LIMIT_EXCEEDED)
        return f"{_interruption(pod, end)} (uid {uid})" if is_last and pod.is_interrupted(end.at) else ""
    reason, why = _reported(view)
    return f"{why} (uid {uid})" if failure is not None and not view.launchers and reason == INTERRUPTED else ""


def _failed_job(view: View, failure: Object, last: tuple[PodView, End] | None, counts: Counts) -> Launcher:
    """Take over the Job's reason and message, and at the end of the tries how the last pod failed."""
    reason, message = str(failure.get("reason") or FAILED), str(failure.get("message") or "")
    message = message or f"MPIJob {view.job.namespace}/{view.job.name} has failed"
    why = ""
    if last is not None:
        pod, end = last
        why = end.message
        if reason == BACKOFF_LIMIT_EXCEEDED:
            failed = (one.reason for one in pod.state.containers if one.exit_code and one.state == "terminated")
            reason += f"/{pod.state.reason or next(failed, '')}"
        message = f"{message}: {why}"
    elif why := attempts.last(view) or _reported(view)[1]:
        message = f"{message}: {why}"  # in place: the Job's own reason is all there is for it
    at = seconds(failure.get("lastTransitionTime"))
    return Launcher(Stage.FAILED, counts, None, reason, cut(message), why, at)


def _reported(view: View) -> tuple[str, str]:
    """Return what the status says of the last pod: it may be gone a moment before its Job has failed."""
    waiting = conditions.find(view.conditions, Type.LAUNCHER_WAITING) or {}
    reason = str(waiting.get("reason"))
    return (
        (reason, str(waiting.get("message")).removesuffix(TRIED_AGAIN)) if reason in (TRIED, INTERRUPTED) else ("", "")
    )
