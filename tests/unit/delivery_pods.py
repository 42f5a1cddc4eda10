"""Pod states by hand, for the tests of delivery."""

from __future__ import annotations

from typing import Any

from agents.common.pods import ContainerState, Pod


def container(name: str = "mpi", **fields: Any) -> ContainerState:
    """A container that waits for its node to begin, except the fields given."""
    values: dict[str, Any] = {
        "name": name,
        "init": False,
        "state": "waiting",
        "reason": "",
        "message": "",
        "exit_code": None,
        "restarts": 0,
        "ready": False,
        "last_reason": "",
        "last_exit_code": None,
    }
    return ContainerState(**{**values, **fields})


def pod(name: str = "pi-worker-0", **fields: Any) -> Pod:
    """A pod on a node, not begun yet, except the fields given."""
    values: dict[str, Any] = {
        "name": name,
        "uid": f"uid of {name}",
        "phase": "Pending",
        "ready": False,
        "deleting": False,
        "ips": (),
        "reason": "",
        "message": "",
        "unscheduled": "",
        "unscheduled_reason": "",
        "node": "node-1",
        "main_container": "mpi",
        "containers": (),
        "labels": (),
    }
    return Pod(**{**values, **fields})


def ready(name: str = "pi-worker-0", **fields: Any) -> Pod:
    """A Running and Ready pod."""
    states = (container(state="running", ready=True),)
    values: dict[str, Any] = {"phase": "Running", "ready": True, "ips": ("10.0.0.7",), "containers": states}
    return pod(name, **{**values, **fields})


def waiting(reason: str, message: str = "", name: str = "pi-worker-0", **fields: Any) -> Pod:
    """A pod whose container waits for the given reason."""
    return pod(name, containers=(container(reason=reason, message=message),), **fields)


def failed(name: str = "pi-worker-0", code: int = 1, **fields: Any) -> Pod:
    """A Failed pod."""
    states = (container(state="terminated", reason="Error", exit_code=code),)
    return pod(name, **{"phase": "Failed", "containers": states, **fields})
