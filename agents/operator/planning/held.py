"""What holds the job up, as conditions whose types `kubectl get` shows as its State in the place of kubeflow's.

A virtual cluster's State is the reason of its condition Ready, which is the first of these types.

| the launcher, or workers while it does not run | condition |
|---|---|
| a container gets no image, or can't be created | ImagePullBackOff, CreateContainerConfigError |
| a quota, or anything else, refuses an object (CreationRefused) | QuotaExceeded, FailedCreate |
| no node fits | Unschedulable |
| a scheduling gate holds a pod, or the job is suspended and in a queue of Kueue's | Queued |
| a container was started again and has failed again, or its pod was replaced and has failed again | CrashLoopBackOff |

Why and which pods is in the message, as in WorkersReady and LauncherWaiting, which have the events.
"""

from __future__ import annotations

from collections.abc import Iterator

from agents.common.not_ready import NotReady
from agents.job import conditions
from agents.job.conditions import NewCondition, Type
from agents.job.json_object import part
from agents.job.model import KUEUE_QUEUE
from agents.job.status import StatusBuilder, Urgency
from agents.operator.planning import launcher
from agents.operator.planning.launcher import TRIED, Launcher, Stage
from agents.operator.planning.own_conditions import described, launcher_not_ready
from agents.operator.planning.pods import PodView
from agents.operator.planning.view import View
from agents.operator.planning.workers import score

_QUOTA = "exceeded quota: "  # in the API server's message (kubernetes, plugin/pkg/admission/resourcequota)
_BY_KIND = {
    "image": Type.IMAGE_PULL,
    "never": Type.IMAGE_PULL,
    "config": Type.CONFIG_ERROR,
    "unschedulable": Type.UNSCHEDULABLE,
    "gated": Type.QUEUED,
}


def set_held(view: View, builder: StatusBuilder, found: Launcher) -> None:
    """Set the conditions that hold, and remove the others: all if something blocks the job."""
    messages: dict[Type, list[str]] = {}
    if not conditions.is_true(builder.status["conditions"], *conditions.BLOCKING):
        for kind, message in _held(view, builder, found):
            messages.setdefault(kind, []).append(message)
    for kind, each in messages.items():
        more = f" (and {len(each) - 1} more)" if len(each) > 1 else ""
        _hold(builder, kind, f"{each[0]}{more}")
    builder.remove_conditions(kind for kind in conditions.NOT_READY if kind not in messages)


def set_queued(view: View, builder: StatusBuilder) -> None:
    """Report of a suspended job that Kueue will resume it."""
    queue = part(view.observed.resource, "metadata", "labels").get(KUEUE_QUEUE)
    is_queued = bool(queue) and view.job.policy.is_suspended
    builder.remove_conditions(kind for kind in conditions.NOT_READY if kind is not Type.QUEUED or not is_queued)
    if is_queued:
        _hold(builder, Type.QUEUED, f"suspended until Kueue admits it, by queue {queue}")


def _hold(builder: StatusBuilder, kind: Type, message: str) -> None:
    builder.set_condition(NewCondition(kind, True, "JobHeldUp", message), urgency=Urgency.PROBLEM)


def _held(view: View, builder: StatusBuilder, found: Launcher) -> Iterator[tuple[Type, str]]:
    reason = launcher_not_ready(view, found)
    kind = None if reason is None or found.pod is None else _kind(found.pod, reason)
    if kind and reason and found.pod:
        yield kind, described(found.pod, reason)
    elif found.stage is Stage.RUNNING and launcher.is_running(view) and not view.job.dialect.never_ends:
        return  # the job keeps running whatever is wrong with workers; a virtual cluster is not ready
    if found.pod is None and found.why and found.tried == TRIED and found.counts.failed > 1:
        yield Type.CRASH_LOOP, found.why
    rejected = conditions.find(builder.status["conditions"], Type.CREATION_REFUSED)
    if rejected is not None:
        message = str(rejected.get("message"))
        yield (Type.QUOTA_EXCEEDED if _QUOTA in message else Type.FAILED_CREATE), message
    for index, reason in view.unready.items():
        pod = view.workers.get(index)
        if pod is not None and (kind := _kind(pod, reason)):
            yield kind, described(pod, reason)


def _kind(pod: PodView, reason: NotReady) -> Type | None:
    """Return how `kubectl get pods` calls it; None for what passes, or is no fault."""
    is_again = any(one.restarts for one in pod.state.containers) or score(pod) > 0
    has_crashed = reason.kind == "crash" or (reason.kind == "over" and pod.phase == "Failed" and not pod.is_disrupted)
    return Type.CRASH_LOOP if has_crashed and is_again else _BY_KIND.get(reason.kind)
