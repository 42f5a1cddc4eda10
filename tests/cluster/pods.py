"""What a pod's object says. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Pod = dict[str, Any]


def phase(pod: Pod) -> str:
    """Pending, Running, Succeeded, Failed or Unknown."""
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_ready(pod: Pod) -> bool:
    """Whether it is Ready, and not being deleted."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def statuses(pod: Pod) -> Iterator[dict[str, Any]]:
    """The status of each container, init containers first."""
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])


def state(pod: Pod, container: str) -> dict[str, Any]:
    """A container's state: {"waiting": …}, {"running": …} or {"terminated": …}; {} before it has one."""
    return next((dict(one.get("state", {})) for one in statuses(pod) if one["name"] == container), {})


def is_running(pod: Pod, container: str) -> bool:
    """Whether this container runs now."""
    return "running" in state(pod, container)


def exit_code(pod: Pod, container: str) -> int | None:
    """The exit code of a container that has ended; None while it hasn't."""
    code = state(pod, container).get("terminated", {}).get("exitCode")
    return None if code is None else int(code)


def restarts(pod: Pod, container: str) -> int:
    """How often this container was started again in place."""
    return next((int(one["restartCount"]) for one in statuses(pod) if one["name"] == container), 0)


def picture(pods: Iterable[Pod]) -> str:
    """A line a pod, for whoever reads why a test failed."""
    return "\n".join(_line(pod) for pod in pods) or "no pods"


def _line(pod: Pod) -> str:
    metadata, status = pod["metadata"], pod.get("status", {})
    parts = [f"{metadata['name']}: {phase(pod)}"]
    parts += ["being deleted"] * ("deletionTimestamp" in metadata)
    parts += [f"{status.get('reason', '')} {status.get('message', '')}".strip()]
    parts += [_state(one) for one in statuses(pod)]
    parts += [
        f"{one['type']}: {one.get('reason', '')} {one.get('message', '')}".strip()
        for one in status.get("conditions", [])
        if one["status"] != "True" and one["type"] == "PodScheduled"
    ]
    return " · ".join(part for part in parts if part)


def _state(status: dict[str, Any]) -> str:
    states: dict[str, Any] = status.get("state", {})
    kind = next(iter(states), "unknown")
    detail = states.get(kind, {})
    words = [status["name"], "running, not ready" if kind == "running" and not status.get("ready") else kind]
    if "exitCode" in detail:
        words.append(f"with {detail['exitCode']}")
    words += [detail[key] for key in ("reason", "message") if detail.get(key)]
    if status.get("restartCount"):
        words.append(f"(started {status['restartCount'] + 1} times)")
    return " ".join(str(word).strip() for word in words)
