"""What one worker lacks before it is ready, in words, and how long that is worth waiting for.

Pure: one Pod state in, one `Lack` out. Reasons are the scheduler's and the kubelet's (kubernetes, pkg/kubelet:
images/types.go, container/sync_result.go, kuberuntime/kuberuntime_container.go); a waiting reason
that isn't known here counts as trouble that may heal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from delivery import exits
from rshagent.status import one_line

if TYPE_CHECKING:
    from rshagent.pods import ContainerState, Pod

# Waiting reasons of a container that is on its way.
_ON_ITS_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
# Waiting reasons that nothing but another pod heals.
_NEVER = frozenset({"InvalidImageName"})
_IMAGE = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
    "SignatureValidationFailed",
})  # fmt: skip
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_MESSAGE_MAX = 240


class Patience(Enum):
    """How long a lack may last before delivery gives up."""

    ENDLESS = "only --timeout ends it"
    GRACE = "it may heal"
    REPLACEMENT = "another pod may take its place"
    NONE = "it can't heal"


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a worker isn't ready: `words`, and in `detail` what the cluster says of it (may be empty or long).

    Lacks of one `kind` share a clock; workers with the same words and detail are told together. `exit_code` and `hint`
    (what to do) are for the end that the lack may bring.
    """

    kind: str
    words: str
    detail: str = ""
    patience: Patience = Patience.ENDLESS
    exit_code: int = exits.GRACE_OVER
    hint: str = ""


UNKNOWN = Lack("unknown", "not known yet")  # before the first list

_DESCRIBE_HINT = "`kubectl describe pod` tells more"
_LOGS_HINT = "`kubectl logs --previous` shows its last words"
_NODE_HINT = "see whether its node is up"


def lack_of(pod: Pod | None, *, was_seen: bool = False) -> Lack | None:
    """Return what `pod` lacks, or None for a ready one; `was_seen`: an earlier state of this worker is known."""
    if pod is None:
        return _absent(was_seen=was_seen)
    if pod.deleting:
        return _heals("deleting", _because("being deleted", pod.reason), pod.message, _NODE_HINT)
    if pod.phase in ("Failed", "Succeeded"):
        return _ended_pod(pod)
    if pod.phase == "Unknown" or pod.reason == "NodeLost":
        return _heals("node", _because("on a node that does not report", pod.reason), pod.message, _NODE_HINT)
    if pod.unscheduled_reason == "SchedulingGated":
        return Lack("gated", "held back by a scheduling gate")
    if pod.unscheduled or pod.unscheduled_reason:
        return Lack("unschedulable", "unschedulable", _short(pod.unscheduled))
    if pod.ready and pod.phase == "Running":
        return None if pod.ips else Lack("address", "ready but without an address")
    return _container_lack(pod)


def _absent(*, was_seen: bool) -> Lack:
    if not was_seen:
        return Lack("absent", "not created yet")
    hint = "is the job being deleted, or its operator down?"
    return Lack("over", "gone", "", Patience.REPLACEMENT, exits.GONE, hint)


def _ended_pod(pod: Pod) -> Lack:
    """A Failed or Succeeded pod: told by its own reason (Evicted, NodeShutdown, …), else by its container's end."""
    if pod.phase == "Succeeded":
        words = "ended by itself (Succeeded) before the job could begin"
        return Lack("over", words, "", Patience.REPLACEMENT, exits.ENDED, "a worker's command must keep running")
    words = "evicted" if pod.reason == "Evicted" else _because("failed", pod.reason)
    ended = [state for state in pod.containers if state.state == "terminated" and state.exit_code]
    # A sidecar is ended behind the others, and then by the kubelet.
    first = None if pod.reason else min(ended, key=lambda state: state.sidecar, default=None)
    detail = _short(pod.message) if first is None else _with(_end_of(first), first.message)
    return Lack("over", words, detail, Patience.REPLACEMENT, exits.ENDED, _DESCRIBE_HINT)


def _heals(kind: str, words: str, detail: str, hint: str) -> Lack:
    return Lack(kind, words, _short(detail), Patience.GRACE, exits.GRACE_OVER, hint)


def _container_lack(pod: Pod) -> Lack:
    """Look at the containers in their order of start: trouble first, then where the start has got to."""
    for container in pod.containers:
        trouble = _trouble(container, pod)
        if trouble is not None:
            return trouble
    if not pod.containers:
        return Lack("accept", "not begun by its node yet") if pod.node else Lack("schedule", "waiting for a node")
    for position, container in enumerate(pod.containers):
        # All before this one have ended well or are sidecars, so this one is the next; its reason doesn't tell, as the
        # kubelet says PodInitializing of every container behind an init container, even while it pulls the image.
        if container.state not in ("running", "terminated"):
            return _starting(container, pod)
        later = pod.containers[position + 1 :]
        if _is_step(container) and all(other.state not in ("running", "terminated") for other in later):
            return Lack("init", f"running init container {container.name}")
    unready = [container.name for container in pod.containers if not container.ready and not container.init]
    if unready and pod.phase == "Running":
        return Lack("unready", f"running, container {unready[0]} not ready yet")
    return Lack("unready", "running, not ready yet" if pod.phase == "Running" else "starting")


def _is_step(container: ContainerState) -> bool:
    """Whether it is an init container that must end, or a sidecar that isn't up yet: only sidecars are ready."""
    return container.init and container.state == "running" and not container.ready


def _starting(container: ContainerState, pod: Pod) -> Lack:
    """Before a pod has its address, its status doesn't tell volumes and image apart; after that it is the image.

    The kubelet reports nothing new while it pulls a pod's first image.
    """
    where = f" of init container {container.name}" if container.init else ""
    return Lack("pull", f"pulling image{where}" if pod.ips else "pulling image or mounting volumes")


def _trouble(container: ContainerState, pod: Pod) -> Lack | None:
    """Return what is wrong with a container, or None if it is well or on its way."""
    name = _name(container)
    if container.state == "waiting" and container.reason not in _ON_ITS_WAY:
        return _waiting_trouble(container, name)
    if container.state == "terminated":
        if container.exit_code:
            return _heals("crash", _end_of(container), container.message, _LOGS_HINT)
        if not container.init and pod.phase == "Running":
            return _heals("crash", f"{name} ended by itself (exit 0)", "", _LOGS_HINT)
        # Of a sidecar that ended with 0 the kubelet says no CrashLoopBackOff: so end ours whose postStart hook failed.
        if container.sidecar and not _has_ended(pod):
            return _heals("crash", f"{name} does not stay up", container.message or container.last_message, _LOGS_HINT)
    elif container.restarts and not container.ready:
        words = f"{name} was restarted{_last(container)}, not ready again yet"
        return _heals("crash", words, container.last_message, _LOGS_HINT)
    return None


def _has_ended(pod: Pod) -> bool:
    """Whether one of the pod's own containers has ended, and with them all its sidecars may."""
    return any(one.state == "terminated" for one in pod.containers if not one.init)


def _waiting_trouble(container: ContainerState, name: str) -> Lack:
    reason, message = container.reason, container.message
    if reason in _NEVER:
        hint = "correct the image's name in the job"
        return Lack("never", f"{name} can never start ({reason})", _short(message), Patience.NONE,
                    exits.CANNOT_START, hint)  # fmt: skip
    if reason in _IMAGE:
        hint = "check the image's name, the registry and the pull secret"
        return _heals("image", f"{name} can't get its image ({reason})", message, hint)
    if reason in _CONFIG:
        hint = "check the ConfigMaps, Secrets and volumes it names"
        return _heals("config", f"{name} can't be created ({reason})", message, hint)
    if reason == "PostStartHookError":
        words = f"{name} can't start: its postStart hook failed"
        return _heals("crash", words, container.last_message or message, _LOGS_HINT)
    if reason == "CrashLoopBackOff":
        words = f"{name} crashes again and again{_last(container)}"
        return _heals("crash", words, container.last_message, _LOGS_HINT)
    return _heals("waiting", f"{name} waits ({reason})", message, _DESCRIBE_HINT)


def _name(container: ContainerState) -> str:
    return f"init container {container.name}" if container.init else f"container {container.name}"


def _end_of(container: ContainerState) -> str:
    if container.reason == "OOMKilled":
        return f"{_name(container)} ran out of memory (OOMKilled)"
    reason = "" if container.reason == "Error" else container.reason
    return _because(f"{_name(container)} ended with {container.exit_code}", reason)


def _last(container: ContainerState) -> str:
    """Return ` (exit 1)` or ` (OOMKilled)`: how the container ended the last time."""
    if container.last_reason not in ("", "Error"):
        return f" ({container.last_reason})"
    return f" (exit {container.last_exit_code})" if container.last_exit_code is not None else ""


def _with(words: str, message: str) -> str:
    return f"{words}: {_short(message)}" if message.strip() else words


def _because(words: str, reason: str) -> str:
    return f"{words} ({reason})" if reason else words


def _short(message: str) -> str:
    line = one_line(message)
    return line if len(line) <= _MESSAGE_MAX else line[: _MESSAGE_MAX - 1] + "…"
