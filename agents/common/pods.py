"""What matters of a pod, and what its state means. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple


class ContainerState(NamedTuple):
    """A container's present state; `reason` and `message` come from the kubelet."""

    name: str
    init: bool
    state: str  # waiting, running, terminated; "" where the kubelet has not reported yet
    reason: str
    message: str
    exit_code: int | None
    restarts: int
    ready: bool
    last_reason: str  # why it ended the last time (OOMKilled, Error, …)
    last_exit_code: int | None
    last_message: str = ""  # its termination message
    sidecar: bool = False  # an init container with restartPolicy Always
    started_at: str = ""  # times as the API server writes them
    finished_at: str = ""
    last_started_at: str = ""
    last_finished_at: str = ""


class Pod(NamedTuple):
    """The few fields of a pod that the agents look at: a thousand whole ones would not fit into an init container."""

    name: str
    uid: str
    phase: str
    ready: bool
    deleting: bool
    ips: tuple[str, ...]
    reason: str
    message: str
    unscheduled: str  # the scheduler's message while the pod has no node, else ""
    unscheduled_reason: str  # Unschedulable, SchedulingGated, …
    node: str
    main_container: str
    containers: tuple[ContainerState, ...]
    labels: tuple[tuple[str, str], ...]
    owner: str = ""  # its controller's uid
    created: str = ""  # as the API server writes times
    size: int = 0  # number of containers in the spec that run as long as the pod

    def container(self, name: str | None) -> ContainerState | None:
        """Return the named container's state, or the main one's."""
        wanted = name or self.main_container
        return next((state for state in self.containers if state.name == wanted and not state.init), None)


def parse(raw: dict[str, Any]) -> Pod:
    """Read a pod as the API server writes it; what is missing or of a wrong type counts as empty."""
    metadata, spec, status = (_dict(raw.get(part)) for part in ("metadata", "spec", "status"))
    conditions = {str(c.get("type")): c for c in _dicts(status.get("conditions"))}
    scheduled = conditions.get("PodScheduled", {})
    waits = scheduled.get("status") == "False"
    ips = [str(entry.get("ip")) for entry in _dicts(status.get("podIPs")) if entry.get("ip")]
    if not ips and status.get("podIP"):
        ips = [str(status["podIP"])]
    first = next((str(c.get("name")) for c in _dicts(spec.get("containers"))), "")
    default = _dict(metadata.get("annotations")).get("kubectl.kubernetes.io/default-container")
    stay = {str(one.get("name")) for one in _dicts(spec.get("initContainers")) if one.get("restartPolicy") == "Always"}
    states = [
        _container(entry, init=True, sidecar=str(entry.get("name")) in stay)
        for entry in _dicts(status.get("initContainerStatuses"))
    ]
    states += [_container(entry, init=False) for entry in _dicts(status.get("containerStatuses"))]
    return Pod(
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        phase=str(status.get("phase") or ""),
        ready=conditions.get("Ready", {}).get("status") == "True" and status.get("phase") == "Running",
        deleting=bool(metadata.get("deletionTimestamp")),
        ips=tuple(ips),
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        unscheduled=str(scheduled.get("message") or "") if waits else "",
        unscheduled_reason=str(scheduled.get("reason") or "") if waits else "",
        node=str(spec.get("nodeName") or ""),
        main_container=str(default or first),
        containers=tuple(states),
        labels=tuple(sorted((str(k), str(v)) for k, v in _dict(metadata.get("labels")).items())),
        owner=next(
            (str(one.get("uid")) for one in _dicts(metadata.get("ownerReferences")) if one.get("controller")), ""
        ),
        created=str(metadata.get("creationTimestamp") or ""),
        size=len(_dicts(spec.get("containers"))) + len(stay),
    )


def why_ended(before: Pod, now: Pod | None, container: str | None) -> tuple[str, int] | None:
    """Say why a session that began in `before` can't be running any more, and with which exit code; None if it may.

    A stream can't tell: the API server keeps answering its pings when the pod behind it is gone
    (kubernetes/kubernetes#129144).
    """
    if now is None:
        return "the pod was deleted", 255
    if now.uid != before.uid:
        return "the pod was replaced by a new pod of the same name", 255
    if now.phase in ("Failed", "Succeeded"):
        words = f": {now.reason}" if now.reason else ""
        state = now.container(container)
        code = _failure_code(state.exit_code if state is not None else None)
        oom = ", OOMKilled" if state is not None and state.reason == "OOMKilled" else ""
        return f"the pod has ended ({now.phase}{words}{oom})", code
    old, new = before.container(container), now.container(container)
    if old is None or new is None:
        return None
    if new.state == "terminated":
        return f"its {end_of(new)}", _failure_code(new.exit_code)
    if new.restarts > old.restarts:
        reason = new.last_reason or "no reason given"
        return f"its container {new.name} was restarted ({reason})", _failure_code(new.last_exit_code)
    return None


def full_name(container: ContainerState) -> str:
    """Return `container NAME` or `init container NAME`."""
    return f"init container {container.name}" if container.init else f"container {container.name}"


def end_of(container: ContainerState) -> str:
    """Say how a terminated container ended."""
    return exited(full_name(container), container.exit_code, container.reason)


def exited(name: str, exit_code: int | None, reason: str) -> str:
    """Return `container mpi exited with 3`, or with the kubelet's reason where that tells more: `… 137 (OOMKilled)`."""
    return f"{name} exited with {exit_code}" + (f" ({reason})" if reason not in ("", "Error") else "")


def _failure_code(code: int | None) -> int:
    """Return a container's exit code as a session's; its success is none of the session's."""
    return code if code is not None and 0 < code <= 255 else 255


def _container(raw: dict[str, Any], *, init: bool, sidecar: bool = False) -> ContainerState:
    states = _dict(raw.get("state"))
    kind = next((name for name in ("terminated", "running", "waiting") if name in states), "")
    now, last = _dict(states.get(kind)), _dict(_dict(raw.get("lastState")).get("terminated"))
    return ContainerState(
        name=str(raw.get("name") or ""),
        init=init,
        state=kind,
        reason=str(now.get("reason") or ""),
        message=str(now.get("message") or ""),
        exit_code=_int(now.get("exitCode")) if kind == "terminated" else None,
        restarts=_int(raw.get("restartCount")) or 0,
        ready=bool(raw.get("ready")),
        last_reason=str(last.get("reason") or ""),
        last_exit_code=_int(last.get("exitCode")),
        last_message=str(last.get("message") or ""),
        sidecar=sidecar,
        started_at=str(now.get("startedAt") or ""),
        finished_at=str(now.get("finishedAt") or ""),
        last_started_at=str(last.get("startedAt") or ""),
        last_finished_at=str(last.get("finishedAt") or ""),
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
