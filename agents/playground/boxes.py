"""Containers of a pod that runs, and the status that they add up to. Pure but for the clock."""

from __future__ import annotations

import copy
from typing import Any

from . import pods

Object = dict[str, Any]

_BACK_OFF_S, _BACK_OFF_MAX_S = 10.0, 300.0  # the kubelet's, from the second restart on


class Box:
    """One container, and how it goes."""

    def __init__(self, spec: Object, *, init: bool) -> None:
        self.spec = spec
        self.name = str(spec["name"])
        self.is_sidecar = init and spec.get("restartPolicy") == "Always"
        self.is_init = init
        self.state: Object = {"waiting": {"reason": "PodInitializing"}}
        self.last: Object = {}
        self.restarts = 0
        self.pid = 0
        self.is_begun = False  # started, or about to be
        self.is_up = False  # its startup probe, if there is one, has succeeded
        self.is_ready = False
        self.may_end = False  # its preStop hook is over

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

    def began(self, pid: int) -> None:
        """Its process runs."""
        self.pid = pid
        self.state = {"running": {"startedAt": pods.timestamp()}}

    def ended(self, code: int, *, reason: str = "", message: str = "") -> None:
        """Its process is no more."""
        began = self.state.get("running", {}).get("startedAt", pods.timestamp())
        reason = reason or ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": pods.timestamp()}
        self.state = {"terminated": terminated | ({"message": message} if message else {})}
        self.pid = 0
        self.is_up = self.is_ready = False

    def back_off(self, pod: str) -> float:
        """It is to be started again; returns after how many seconds. The first time is at once."""
        self.last = self.state
        self.restarts += 1
        if self.restarts == 1:
            return 0.0
        delay_s = min(_BACK_OFF_S * 2.0 ** (self.restarts - 2), _BACK_OFF_MAX_S)
        self.wait("CrashLoopBackOff", f"back-off {delay_s:.0f}s restarting failed container={self.name} pod={pod}")
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


def status(before: Object, inits: list[Box], mains: list[Box], *, phase: str, address: str) -> Object:
    """The pod's status."""
    initialized = all(box.is_up if box.is_sidecar else box.exit_code == 0 for box in inits) or phase == "Succeeded"
    ready = phase == "Running" and all(box.is_ready for box in mains)
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
        found["initContainerStatuses"] = [box.status() for box in inits]
    return found | {"containerStatuses": [box.status() for box in mains]}
