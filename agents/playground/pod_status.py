"""A pod's status from its containers: as they run, or as a test sets them. Pure except for the clock."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

from . import pods

if TYPE_CHECKING:
    from .processes import Process

Object = dict[str, Any]

_BACK_OFF_S, _BACK_OFF_MAX_S = 0.1, 1.0  # the kubelet's 10 s and 300 s are too long to watch

# The states that a test can put a pod in: what a container waits for in each that has it wait.
_WAITING = {
    "pulling": ("ContainerCreating", ""),
    "image-pull-backoff": ("ImagePullBackOff", 'Back-off pulling image "{image}"'),
    "invalid-image-name": ("InvalidImageName", 'Failed to apply default image tag "{image}": invalid reference format'),
    "config-error": ("CreateContainerConfigError", 'secret "missing" not found'),
    "crash-loop": ("CrashLoopBackOff", "back-off 40s restarting failed container={container} pod={pod}"),
}
_UP = ("running", "ready")
_ENDED = {"succeeded": ("Completed", 0), "failed": ("Error", 1), "oom-killed": ("OOMKilled", 137)}
NO_NODE = ("pending", "unschedulable")
STATES = (*NO_NODE, "scheduled", "initializing", *_WAITING, *_UP, *_ENDED, "evicted")
ENDS = (*_ENDED, "evicted")  # these end the pod's processes
_PHASES = {"crash-loop": "Running", "succeeded": "Succeeded"}
_PHASES |= dict.fromkeys(_UP, "Running") | dict.fromkeys(("failed", "oom-killed"), "Failed")


class ContainerState:
    """One container, and how it goes."""

    def __init__(self, spec: Object, *, init: bool) -> None:
        self.spec = spec
        self.name = str(spec["name"])
        self.is_sidecar = init and spec.get("restartPolicy") == "Always"
        self.is_init = init
        self.state: Object = {"waiting": {"reason": "PodInitializing"}}
        self.last: Object = {}
        self.restarts = 0
        self.process: Process | None = None
        self.task: asyncio.Task[None] | None = None  # that runs it
        self.lets_next_start = asyncio.Event()  # of an init container: it has succeeded, of a sidecar: it is up
        self.is_up = False  # its startup probe, if there is one, has succeeded
        self.is_ready = False

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Its last exit code, if it has ended."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def wait(self, reason: str, message: str = "") -> None:
        """It is not there, and why."""
        self.state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}

    def began(self, at: str = "") -> None:
        """Its process runs, since now or a timestamp."""
        self.state = {"running": {"startedAt": at or pods.timestamp()}}

    def ended(self, code: int, *, reason: str = "", message: str = "") -> None:
        """Its process is no more."""
        began = self.state.get("running", {}).get("startedAt", pods.timestamp())
        reason = reason or ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": pods.timestamp()}
        self.state = {"terminated": terminated | ({"message": message} if message else {})}
        self.process = None
        self.is_up = self.is_ready = False

    def back_off(self, pod: str) -> float:
        """Count a restart; returns after how many seconds it is due."""
        self.last = self.state
        self.restarts += 1
        delay_s = min(_BACK_OFF_S * 2.0 ** (self.restarts - 1), _BACK_OFF_MAX_S)
        self.wait("CrashLoopBackOff", f"back-off {delay_s:g}s restarting failed container={self.name} pod={pod}")
        return delay_s

    def status(self) -> Object:
        """As the pod's status tells it."""
        running = self.is_running
        ready = self.is_ready if not self.is_init or self.is_sidecar else self.exit_code == 0
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": "",
            "restartCount": self.restarts,
            "ready": ready,
            "started": running and self.is_up,
            "state": copy.deepcopy(self.state),
            "lastState": copy.deepcopy(self.last),
        }


def status(
    before: Object,
    inits: list[ContainerState],
    mains: list[ContainerState],
    *,
    phase: str,
    address: str,
    initialized: bool | None = None,
) -> Object:
    """The pod's status. `initialized`: if not as the init containers tell."""
    if initialized is None:
        initialized = all(one.is_up if one.is_sidecar else one.exit_code == 0 for one in inits) or phase == "Succeeded"
    ready = phase == "Running" and all(one.is_ready for one in mains)
    done = {"reason": "PodCompleted"} if phase == "Succeeded" else {"reason": "ContainersNotReady"}
    told = {
        "PodScheduled": (True, {}),
        "Initialized": (initialized, {} if initialized else {"reason": "ContainersNotInitialized"}),
        "ContainersReady": (ready, {} if ready else done),
        "Ready": (ready, {} if ready else done),
    }
    old = {one["type"]: one for one in before.get("conditions", ())}
    conditions = []
    for kind, (true, why) in told.items():
        value = "True" if true else "False"
        same = old.get(kind, {}).get("status") == value
        since = old[kind]["lastTransitionTime"] if same else pods.timestamp()
        conditions.append({"type": kind, "status": value, "lastTransitionTime": since, **why})
    found: Object = {"phase": phase, "conditions": conditions, "hostIP": "127.0.0.1"}
    found |= {"podIP": address, "podIPs": [{"ip": address}]} if address else {}
    found["startTime"] = before.get("startTime", pods.timestamp())
    if inits:
        found["initContainerStatuses"] = [one.status() for one in inits]
    return found | {"containerStatuses": [one.status() for one in mains]}


def status_of(thing: Object, state: str, *, address: str, message: str = "", exit_code: int | None = None) -> Object:
    """The status of a pod in one of `STATES`. `message` replaces the usual one. Raises ValueError."""
    if state not in STATES:
        raise ValueError(f"no pod state {state!r}; there are: {', '.join(STATES)}")
    if state == "evicted":
        text = message or "The node was low on resource: memory."
        return {"phase": "Failed", "reason": "Evicted", "message": text, "startTime": pods.timestamp()}
    if state in NO_NODE:
        text = message or "0/12 nodes are available: 12 Insufficient cpu."
        why = {"reason": "Unschedulable", "message": text} if state == "unschedulable" else {}
        condition = {"type": "PodScheduled", "status": "False", "lastTransitionTime": pods.timestamp(), **why}
        return {"phase": "Pending", "conditions": [condition]}
    inits = [_scripted_init(one, state) for one in thing["spec"].get("initContainers", ())]
    mains = [_scripted(thing, one, state, message, exit_code) for one in thing["spec"]["containers"]]
    initialized, phase = state not in {"scheduled", "initializing"}, _PHASES.get(state, "Pending")
    found = status(thing["status"], inits, mains, phase=phase, address=address, initialized=initialized)
    if state in {"scheduled", "pulling", "invalid-image-name"}:
        found.pop("podIP", None)
        found.pop("podIPs", None)
    return found


def _scripted(thing: Object, spec: Object, state: str, message: str, exit_code: int | None) -> ContainerState:
    one = ContainerState(spec, init=False)
    if state in _UP:
        old = pods.statuses_of(thing, one.name)
        one.began(old[0]["state"].get("running", {}).get("startedAt", "") if old else "")
        one.is_up, one.is_ready = True, state == "ready"
    elif state in _ENDED:
        reason, code = _ENDED[state]
        one.ended(code if exit_code is None else exit_code, reason=reason, message=message)
    else:
        reason, text = _WAITING.get(state, ("PodInitializing" if state == "initializing" else "ContainerCreating", ""))
        one.wait(reason, message or text.format(image=spec["image"], container=one.name, pod=thing["metadata"]["name"]))
        if state == "crash-loop":
            one.restarts, one.last = 3, {"terminated": {"exitCode": exit_code or 1, "reason": "Error"}}
    return one


def _scripted_init(spec: Object, state: str) -> ContainerState:
    one = ContainerState(spec, init=True)
    if state == "initializing" or (one.is_sidecar and state in _UP):
        one.began()
        one.is_up = one.is_ready = True
    elif state == "crash-loop" or state not in {"scheduled", *_WAITING}:
        one.ended(0)
    return one
