"""Containers of a pod that runs, and the status that they add up to. Pure but for the clock."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

from . import pods

if TYPE_CHECKING:
    from .processes import Process

Object = dict[str, Any]

_BACK_OFF_S, _BACK_OFF_MAX_S = 0.1, 1.0  # the kubelet's 10 s and 300 s are too long to watch


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

    def began(self) -> None:
        """Its process runs."""
        self.state = {"running": {"startedAt": pods.timestamp()}}

    def ended(self, code: int, *, reason: str = "", message: str = "") -> None:
        """Its process is no more."""
        began = self.state.get("running", {}).get("startedAt", pods.timestamp())
        reason = reason or ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": pods.timestamp()}
        self.state = {"terminated": terminated | ({"message": message} if message else {})}
        self.process = None
        self.is_up = self.is_ready = False

    def back_off(self, pod: str) -> float:
        """It is to be started again; returns after how many seconds."""
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
    before: Object, inits: list[ContainerState], mains: list[ContainerState], *, phase: str, address: str
) -> Object:
    """The pod's status."""
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
    found: Object = {"phase": phase, "conditions": conditions, "hostIP": "127.0.0.1", "podIP": address}
    found |= {"podIPs": [{"ip": address}], "startTime": before.get("startTime", pods.timestamp())}
    if inits:
        found["initContainerStatuses"] = [one.status() for one in inits]
    return found | {"containerStatuses": [one.status() for one in mains]}
