"""What can be wrong with an exec request, and where the real cluster finds it out. Pure.

The API server's own checks are told by HTTP status in both protocols. What kubelet finds comes after the 101 with
v5.channel.k8s.io, whose streams the API server translates (apiserver `pkg/util/proxy/streamtranslator.go`), and by HTTP
status with v4, which is only passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import pods, statuses
from .exec_session import V4, V5

if TYPE_CHECKING:
    from .request import Request


def needed_verbs(method: str, minor: int) -> list[str]:
    """What the user must be allowed: a WebSocket is a GET, and from 1.35 on that needs create too (PR 134577)."""
    if method == "GET":
        return ["get", "create"] if minor >= 35 else ["get"]
    return ["create"]


def refusal(request: Request, name: str, thing: pods.Object | None) -> statuses.Status | None:
    """What the API server refuses (registry/core/pod `ExecLocation`); None if nothing."""
    if thing is None:
        return statuses.not_found("pods", name)
    wrong = _wrong_options(request) or wrong_container(request.first("container"), name, thing)
    if wrong is None and not thing["spec"].get("nodeName"):
        wrong = f"pod {name} does not have a host assigned"
    if wrong is None and (request.method != "GET" or request.headers.get("upgrade", "").lower() != "websocket"):
        wrong = "Upgrade request required: the stand-in has WebSockets, not SPDY"
    return None if wrong is None else statuses.failure(400, wrong)


def _wrong_options(request: Request) -> str | None:
    if not request.query.get("command"):
        return "you must specify at least 1 command for the container"
    if not any(request.flag(stream) for stream in ("stdin", "stdout", "stderr")):
        return "you must specify at least 1 of stdin, stdout, stderr"
    if request.flag("tty") and request.flag("stderr"):
        return "tty and stderr cannot both be true"
    return None


def wrong_container(container: str, name: str, thing: pods.Object) -> str | None:
    """What is wrong with a request's container, "" for the only one; None if nothing."""
    if container:
        known = container in pods.container_names(thing)
        return None if known else f"container {container} is not valid for pod {name}"
    names = [one["name"] for one in thing["spec"]["containers"]]
    if len(names) == 1:
        return None
    return f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"


def protocol(request: Request, *, v4_only: bool) -> str | None:
    """The first of the client's subprotocols that is known; None if none is."""
    known = (V4,) if v4_only else (V5, V4)
    offered = (word.strip() for word in request.headers.get("sec-websocket-protocol", "").split(","))
    return next((one for one in offered if one in known), None)


def kubelet_error(thing: pods.Object, container: str) -> str | None:
    """What kubelet refuses; None if nothing."""
    if not pods.runs(thing, container):
        return f'unable to upgrade connection: container not found ("{container}")'
    return None
