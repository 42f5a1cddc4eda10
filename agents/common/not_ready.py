"""Why a pod is not ready, in one line, and how long to tolerate it; many pods in one line. Pure.

Reasons are the scheduler's and the kubelet's (kubernetes, pkg/kubelet: images/types.go, container/sync_result.go,
kuberuntime/kuberuntime_container.go). A waiting reason that is not known here counts as recoverable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from agents.common import durations
from agents.common.pods import ContainerState, Pod, end_of, full_name
from agents.common.text import last_lines, one_line

# Waiting reasons of a container that is starting.
STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
# Waiting reasons that only another pod can fix.
_NEVER = frozenset({"InvalidImageName"})
_IMAGE = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
    "SignatureValidationFailed",
})  # fmt: skip
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_DETAIL_MAX = 240
_NAMES_MAX = 3
_GROUPS_MAX = 5


class Tolerance(Enum):
    """How long a reason may last before the wait is given up."""

    UNLIMITED = "only a time limit of the whole wait ends it"
    GRACE = "it may recover"
    REPLACEMENT = "another pod may replace it"
    NONE = "it can't recover"


@dataclass(frozen=True, slots=True)
class NotReady:
    """Why a worker isn't ready: `message`, and in `detail` what the cluster says of it (may be empty or long).

    Reasons of one `kind` share a clock. Workers with the same message and detail are named together. `hint` says what
    to do if the wait is given up. `is_gone`: there is no such pod any more.
    """

    kind: str
    message: str
    detail: str = ""
    tolerance: Tolerance = Tolerance.UNLIMITED
    hint: str = ""
    is_gone: bool = False

    def __str__(self) -> str:
        return f"{self.message}: {self.detail}" if self.detail else self.message


UNKNOWN = NotReady("unknown", "not known yet")  # before the first list

_DESCRIBE_HINT = "`kubectl describe pod` tells more"
_LOGS_HINT = "`kubectl logs --previous` shows its last output"
_NODE_HINT = "see whether its node is up"


def not_ready(pod: Pod | None, *, was_seen: bool = False) -> NotReady | None:
    """Return why `pod` is not ready, None if it is; `was_seen`: an earlier state of this worker is known."""
    if pod is None:
        return _absent(was_seen=was_seen)
    if pod.deleting:
        return _recoverable("deleting", _because("being deleted", pod.reason), pod.message, _NODE_HINT)
    if pod.phase in ("Failed", "Succeeded"):
        return _ended_pod(pod)
    if pod.phase == "Unknown" or pod.reason == "NodeLost":
        return _recoverable("node", _because("on a node that does not report", pod.reason), pod.message, _NODE_HINT)
    if pod.unscheduled_reason == "SchedulingGated":
        return NotReady("gated", "held back by a scheduling gate")
    if pod.unscheduled or pod.unscheduled_reason:
        return NotReady("unschedulable", "unschedulable", _short(pod.unscheduled))
    if pod.ready and pod.phase == "Running":
        return None if pod.ips else NotReady("address", "ready but without an address")
    return _of_containers(pod)


def _absent(*, was_seen: bool) -> NotReady:
    if not was_seen:
        return NotReady("absent", "not created yet")
    hint = "is the job being deleted, or its operator down?"
    return NotReady("over", "gone", "", Tolerance.REPLACEMENT, hint, is_gone=True)


def _ended_pod(pod: Pod) -> NotReady:
    """Of a Failed or Succeeded pod: its own reason (Evicted, NodeShutdown, …), else how its container ended."""
    if pod.phase == "Succeeded":
        message = "ended by itself (Succeeded) before the job could begin"
        return NotReady("over", message, "", Tolerance.REPLACEMENT, "a worker's command must keep running")
    message = "evicted" if pod.reason == "Evicted" else _because("failed", pod.reason)
    ended = [state for state in pod.containers if state.state == "terminated" and state.exit_code]
    # The kubelet ends sidecars after the other containers, so theirs are not the cause.
    first = None if pod.reason else min(ended, key=lambda state: state.sidecar, default=None)
    said = "" if first is None else last_lines(first.message, _DETAIL_MAX)
    detail = _short(pod.message) if first is None else end_of(first) + (f": {_short(said)}" if said else "")
    return NotReady("over", message, detail, Tolerance.REPLACEMENT, _DESCRIBE_HINT)


def _recoverable(kind: str, message: str, detail: str, hint: str) -> NotReady:
    return NotReady(kind, message, _short(detail), Tolerance.GRACE, hint)


def _crash(message: str, output: str) -> NotReady:
    return _recoverable("crash", message, last_lines(output, _DETAIL_MAX), _LOGS_HINT)


def _of_containers(pod: Pod) -> NotReady:
    """Look at the containers in their order of start: first failures, then how far the start is."""
    for container in pod.containers:
        failure = _failure(container, pod)
        if failure is not None:
            return failure
    if not pod.containers:
        return NotReady("accept", "not started by its node") if pod.node else NotReady("schedule", "waiting for a node")
    for position, container in enumerate(pod.containers):
        # All before this one have ended well or are sidecars, so this one is the next; its reason doesn't tell, as the
        # kubelet says PodInitializing of every container behind an init container, even while it pulls the image.
        if container.state not in ("running", "terminated"):
            return _starting(container, pod)
        later = pod.containers[position + 1 :]
        if _is_step(container) and all(other.state not in ("running", "terminated") for other in later):
            return NotReady("init", f"running init container {container.name}")
    unready = [container.name for container in pod.containers if not container.ready and not container.init]
    if unready and pod.phase == "Running":
        return NotReady("unready", f"running, container {unready[0]} not ready yet")
    return NotReady("unready", "running, not ready yet" if pod.phase == "Running" else "starting")


def _is_step(container: ContainerState) -> bool:
    """Whether it is an init container that must end, or a sidecar that isn't up yet: only sidecars are ready."""
    return container.init and container.state == "running" and not container.ready


def _starting(container: ContainerState, pod: Pod) -> NotReady:
    """Before a pod has its address, its status doesn't tell volumes and image apart; after that it is the image.

    The kubelet reports nothing new while it pulls a pod's first image.
    """
    where = f" of init container {container.name}" if container.init else ""
    return NotReady("pull", f"pulling image{where}" if pod.ips else "pulling image or mounting volumes")


def _failure(container: ContainerState, pod: Pod) -> NotReady | None:
    """Return what is wrong with a container, None if it runs well or is starting."""
    name = full_name(container)
    if container.state == "waiting" and container.reason not in STARTING:
        return _waiting_failure(container, name)
    if container.state == "terminated":
        if container.exit_code:
            return _crash(end_of(container), container.message)
        if not container.init and pod.phase == "Running":
            return _crash(f"{name} ended by itself (exit 0)", "")
        # Of a sidecar that ended with 0 the kubelet says no CrashLoopBackOff: so end ours whose postStart hook failed.
        # When one of the pod's own containers has ended, sidecars may end, too.
        if container.sidecar and not any(one.state == "terminated" for one in pod.containers if not one.init):
            return _crash(f"{name} does not stay up", container.message or container.last_message)
    elif container.restarts and not container.ready:
        return _crash(f"{name} was restarted{_last(container)}, not ready again yet", container.last_message)
    return None


def _waiting_failure(container: ContainerState, name: str) -> NotReady:
    reason, message = container.reason, container.message
    if reason in _NEVER:
        hint = "correct the image's name in the job"
        return NotReady("never", f"{name} can never start ({reason})", _short(message), Tolerance.NONE, hint)
    if reason in _IMAGE:
        hint = "check the image's name, the registry and the pull secret"
        return _recoverable("image", f"{name} can't get its image ({reason})", message, hint)
    if reason in _CONFIG:
        hint = "check the ConfigMaps, Secrets and volumes it names"
        return _recoverable("config", f"{name} can't be created ({reason})", message, hint)
    if reason == "PostStartHookError":
        return _crash(f"{name} can't start: its postStart hook failed", container.last_message or message)
    if reason == "CrashLoopBackOff":
        return _crash(f"{name} crashes again and again{_last(container)}", container.last_message)
    return _recoverable("waiting", f"{name} waits ({reason})", message, _DESCRIBE_HINT)


def _last(container: ContainerState) -> str:
    """Return ` (exit 1)` or ` (OOMKilled)`: how the container ended the last time."""
    if container.last_reason not in ("", "Error"):
        return f" ({container.last_reason})"
    return f" (exit {container.last_exit_code})" if container.last_exit_code is not None else ""


def _because(message: str, reason: str) -> str:
    return f"{message} ({reason})" if reason else message


def _short(message: str) -> str:
    line = one_line(message)
    return line if len(line) <= _DETAIL_MAX else line[: _DETAIL_MAX - 1] + "…"


def summary(ready: int, total: int, waiting: Sequence[tuple[str, NotReady, float]]) -> str:
    """Return one line such as `5/8 ready · worker-3 pulling image 41 s · worker-6 unschedulable: …`.

    Groups `(worker, reason, seconds)` by reason: first those that may end the wait, then in the order given.
    """
    groups: dict[tuple[str, str], list[tuple[str, NotReady, float]]] = {}
    for entry in waiting:
        groups.setdefault((entry[1].message, entry[1].detail), []).append(entry)
    ordered = sorted(groups.values(), key=lambda group: group[0][1].tolerance is Tolerance.UNLIMITED)
    parts = [f"{ready}/{total} ready", *(_group(group) for group in ordered[:_GROUPS_MAX])]
    rest = sum(len(group) for group in ordered[_GROUPS_MAX:])
    if rest:
        parts.append(f"{rest} more for other reasons")
    return " · ".join(parts)


def _group(group: list[tuple[str, NotReady, float]]) -> str:
    longest_s = max(seconds for _, _, seconds in group)
    reason = group[0][1]
    lasting = f" {durations.words(longest_s)}" if longest_s >= 1 else ""
    detail = f": {reason.detail}" if reason.detail else ""
    return f"{_names([name for name, _, _ in group])} {reason.message}{lasting}{detail}"


def _names(workers: Sequence[str]) -> str:
    """Return up to three names, or the first two and how many more."""
    if len(workers) <= _NAMES_MAX:
        return ", ".join(workers)
    return f"{workers[0]}, {workers[1]} and {len(workers) - 2} more"
