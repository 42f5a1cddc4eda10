"""How far the launcher is, and what becomes of one that ended: v1's is a Pod that we judge, v2beta1's a batch Job.

A pod that succeeded decides for both; a v2beta1 launcher has failed when its Job says so, which counts the tries.

What becomes of a v1 launcher pod that failed (backoffLimit counts new pods, and restarts in place as training-operator
v1.9.3 counts them; without one there is no limit):

| how it failed | Never | OnFailure, Always | ExitCode |
|---|---|---|---|
| evicted, preempted, its node is gone | new pod | new pod | new pod |
| its program ended with 1 to 127 | job failed | in place, by the kubelet | job failed |
| its program ended with 128 or more | job failed | in place, by the kubelet | new pod |
| Failed although the kubelet restarts it (its own deadline) | job failed | job failed | job failed |

A new pod waits 10 s after the first failure, and twice as long after each further one, 6 minutes at most, as a Job's
does. How many have failed is `status.replicaStatuses.Launcher.failed`; the last one that was counted is named by its
uid in the condition Restarting, so that a crash between counting and deleting counts none twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.model import Dialect, RestartPolicy, Transport
from agents.job.status import BACKOFF_LIMIT_EXCEEDED, DEADLINE_EXCEEDED, EVICTED, FAILED, Counts, cut, seconds
from agents.job.words import words_of
from agents.operator.planning.values import mapping, mappings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agents.operator.planning.pods import End, PodView
    from agents.operator.planning.view import View

TRIED = "LauncherFailed"
"""The reason of the condition LauncherWaiting between two of a Job's tries; its message ends with `TRIED_AGAIN`."""
TRIED_AGAIN = "; its Job tries again"

_FIRST_DELAY_S = 10
_LONGEST_DELAY_S = 360


class Stage(Enum):
    """How far the launcher is."""

    ABSENT = auto()  # and nothing is left of an earlier one
    STARTING = auto()
    RUNNING = auto()
    GOING = auto()  # being deleted
    RETRY = auto()  # v1: it failed, and another pod is to take its place
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Launcher:
    """What there is to know of it. `reason` and `message` are for the job's end; `why` is how a pod ended."""

    stage: Stage
    counts: Counts
    pod: PodView | None = None  # the one that the rest is about
    reason: str = ""
    message: str = ""
    why: str = ""
    ended_at: float | None = None
    may_start_at: float = 0.0  # of a new pod after a failed one


def judge(view: View) -> Launcher:
    """Say how far the launcher is."""
    ended = [
        (pod, end) for pod in view.launchers if not _is_stopped(view, pod) and (end := _end(view, pod)) is not None
    ]
    for pod, end in ended:
        if end.is_success:
            counts = Counts(succeeded=1, failed=failed_before(view))
            return Launcher(Stage.SUCCEEDED, counts, pod, ended_at=end.at)
    found = _judge_pod(view) if view.job.dialect.has_launcher_pod else _judge_job(view, ended)
    return _within_deadline(view, found)


def is_running(view: View) -> bool:
    """Whether a program of the launcher has been started and has not ended.

    By ssh its container may run, and wait for the workers in it: then it is the job that has to run.
    """
    if view.job.transport is Transport.SSH and not conditions.is_true(view.conditions, Type.RUNNING):
        return False
    return any(runs(view, pod) for pod in view.launchers)


def runs(view: View, pod: PodView) -> bool:
    """Whether this pod's program has been started and has not ended."""
    return pod.phase == "Running" and _end(view, pod) is None


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


def _is_stopped(view: View, pod: PodView) -> bool:
    """Whether a suspension stops or stopped this pod, or it waited for its user: its 0 is no success."""
    return pod.is_going and (_is_stopping(view) or pod.created_at < (view.time("startTime") or 0.0))


def _is_stopping(view: View) -> bool:
    """Whether a launcher that is deleted has nothing to succeed in."""
    return view.is_stopping or conditions.is_true(view.conditions, Type.DEBUGGING)


def _end(view: View, pod: PodView) -> End | None:
    return pod.end(view.launcher_containers, view.job.launcher.restart_policy)


def failed_before(view: View) -> int:
    """Return how many of the launcher's pods have failed, as the status counts them."""
    failed = mapping(mapping(view.status.get("replicaStatuses")).get("Launcher")).get("failed")
    return failed if isinstance(failed, int) else 0


def _judge_pod(view: View) -> Launcher:
    failed = failed_before(view)
    if not view.launchers:
        return Launcher(Stage.ABSENT, Counts(failed=failed), may_start_at=_may_start_at(view, failed))
    pod = view.launchers[-1]
    end = _end(view, pod)
    if pod.is_going:
        return Launcher(Stage.GOING, Counts(failed=failed), pod)
    if end is not None:
        failed += not _is_counted(view, pod)
        return _failed_pod(view, pod, end, failed)
    counts = Counts(active=int(pod.phase == "Running"), failed=failed)
    restarts = failed + pod.restarts(view.launcher_containers)
    if _is_past_limit(view, restarts):
        return _past_limit(view, pod, counts, "")
    stage = Stage.RUNNING if pod.phase == "Running" else Stage.STARTING
    return Launcher(stage, counts, pod)


def _failed_pod(view: View, pod: PodView, end: End, failed: int) -> Launcher:
    counts, why = Counts(failed=failed), end.words
    policy = view.job.launcher.restart_policy
    is_retried = policy is RestartPolicy.EXIT_CODE and end.exit_code is not None and end.exit_code >= 128
    if pod.is_disrupted or is_retried:
        if _is_past_limit(view, failed):
            return _past_limit(view, pod, counts, why)
        return Launcher(Stage.RETRY, counts, pod, why=f"{why} (uid {pod.uid})")
    reason = EVICTED if pod.state.reason == "Evicted" else pod.state.reason or FAILED
    failure = words_of(view.job.dialect).failure.format(full=f"{view.job.namespace}/{view.job.name}")
    return Launcher(Stage.FAILED, counts, pod, reason, f"{failure}{why}", why, end.at)


def _past_limit(view: View, pod: PodView, counts: Counts, why: str) -> Launcher:
    words = f"Job {view.job.name} has failed because it has reached the specified backoff limit"
    message = f"{words}: {why}" if why else words
    return Launcher(Stage.FAILED, counts, pod, BACKOFF_LIMIT_EXCEEDED, message, why)


def _is_past_limit(view: View, restarts: int) -> bool:
    """Whether that is too many: 0 allows none, and N fails the job with the Nth (training-operator's core/job.go)."""
    limit = view.job.policy.backoff_limit
    return limit is not None and restarts >= max(limit, 1)


def _is_counted(view: View, pod: PodView) -> bool:
    restarting = conditions.find(view.conditions, Type.RESTARTING)
    return restarting is not None and f"(uid {pod.uid})" in str(restarting.get("message"))


def _may_start_at(view: View, failed: int) -> float:
    restarting = conditions.find(view.conditions, Type.RESTARTING)
    if restarting is None or not failed:
        return 0.0
    since = seconds(restarting.get("lastUpdateTime")) or 0.0
    return since + min(_FIRST_DELAY_S * 2.0 ** min(failed - 1, 10), _LONGEST_DELAY_S)


def _judge_job(view: View, ended: Sequence[tuple[PodView, End]]) -> Launcher:
    job = view.observed.launcher_job
    if job is None:
        stage = Stage.GOING if view.launchers else Stage.ABSENT
        return Launcher(stage, Counts(), view.launchers[-1] if view.launchers else None)
    status = mapping(job.get("status"))
    failed = status.get("failed")
    running = [pod for pod in view.launchers if pod.phase == "Running"]
    counts = Counts(active=len(running), failed=failed if isinstance(failed, int) else 0)
    complete, failure = (_condition(status, wanted) for wanted in ("Complete", "Failed"))
    # From Kubernetes 1.31 on it is Failed when its pods are gone, and why with them. Before, it says that it will be.
    if failure is None and view.launchers and all(pod.is_going or pod.is_over for pod in view.launchers):
        failure = _condition(status, "FailureTarget")
    is_going = bool(mapping(job.get("metadata")).get("deletionTimestamp"))
    if complete is not None and not (_is_stopping(view) and is_going):
        at = seconds(status.get("completionTime"))
        return Launcher(Stage.SUCCEEDED, Counts(succeeded=1, failed=counts.failed), ended_at=at)
    if failure is not None:
        last = max(ended, key=lambda one: one[0].created_at, default=None)
        return _failed_job(view, failure, last, Counts(failed=counts.failed))
    if is_going:
        return Launcher(Stage.GOING, counts, view.launchers[-1] if view.launchers else None)
    alive = [pod for pod in view.launchers if not pod.is_over and all(pod is not one for one, _ in ended)]
    stage = Stage.RUNNING if running else Stage.STARTING
    if alive:
        return Launcher(stage, counts, alive[-1])
    return Launcher(stage, counts, why=ended[-1][1].words if ended else _noted_failure(view))


def _failed_job(view: View, failure: Mapping[str, Any], last: tuple[PodView, End] | None, counts: Counts) -> Launcher:
    """Take over the Job's reason and message, and at the end of the tries how the last pod failed."""
    reason, message = str(failure.get("reason") or FAILED), str(failure.get("message") or "")
    message = message or f"MPIJob {view.job.namespace}/{view.job.name} has failed"
    why = ""
    if last is not None:
        pod, end = last
        why = end.words
        if reason == BACKOFF_LIMIT_EXCEEDED:
            reason += f"/{pod.state.reason or _container_reason(pod)}"
        message = f"{message}: {why}"
    elif why := _last_failure(view) or _noted_failure(view):  # in place: the Job's own reason is all there is for it
        message = f"{message}: {why}"
    at = seconds(failure.get("lastTransitionTime"))
    return Launcher(Stage.FAILED, counts, None, reason, cut(message), why, at)


def _last_failure(view: View) -> str:
    words = (pod.last_failure(view.launcher_containers) for pod in reversed(view.launchers))
    return next((one for one in words if one), "")


def _noted_failure(view: View) -> str:
    """Return what the status says of the last pod: it may be gone a moment before its Job has failed."""
    noted = conditions.find(view.conditions, Type.LAUNCHER_WAITING)
    if noted is None or noted.get("reason") != TRIED:
        return ""
    return str(noted.get("message")).removesuffix(TRIED_AGAIN)


def _container_reason(pod: PodView) -> str:
    return next((one.reason for one in pod.state.containers if one.exit_code and one.state == "terminated"), "")


def _condition(status: Mapping[str, Any], wanted: str) -> Mapping[str, Any] | None:
    entries = mappings(status.get("conditions"))
    return next((one for one in entries if one.get("type") == wanted and one.get("status") == "True"), None)
