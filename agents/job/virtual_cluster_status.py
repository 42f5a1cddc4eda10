"""A VirtualCluster's status: the planner's conditions by a virtual cluster's names, and what follows from them. Pure.

| VirtualCluster's | the planner's | |
|---|---|---|
| Ready | | NodesReady and LoginReady, and nothing that blocks the cluster or holds it up |
| NodesReady | WorkersReady | |
| LoginReady | LauncherWaiting | the opposite: its message says what the login pod waits for |
| NodesOutdated | WorkersOutdated | |

The others have the planner's names. Reasons say Node and Login where the planner's say Worker and Launcher.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.job import conditions
from agents.job.conditions import Condition, Type
from agents.job.json_object import Body, Object, mappings

READY, LOGIN_READY = "Ready", "LoginReady"
_ABSENT = "WaitingForNodes"  # LoginReady's reason while there is no login pod to say anything of
_NAMES = {Type.WORKERS_READY: "NodesReady", Type.WORKERS_OUTDATED: "NodesOutdated"}
_TYPES = {name: kind for kind, name in _NAMES.items()}
_WORDS = (("Worker", "Node"), ("Launcher", "Login"))


def from_virtual(found: Iterable[Condition]) -> list[Condition]:
    """Return a virtual cluster's conditions as the planner's."""
    read: list[Condition] = []
    for one in found:
        kind, reason = one.get("type"), str(one.get("reason"))
        for ours, theirs in _WORDS:
            reason = reason.replace(theirs, ours)
        if kind == LOGIN_READY and one.get("status") == "False" and one.get("reason") != _ABSENT:
            read.append({**one, "type": str(Type.LAUNCHER_WAITING), "status": "True", "reason": reason})
        elif kind not in (READY, LOGIN_READY):
            read.append({**one, "type": str(_TYPES.get(str(kind), kind)), "reason": reason})
    return read


def to_virtual(status: Object, before: Object, now: str) -> Body:
    """Return a status with the planner's conditions as a virtual cluster's. `before`: the latter, as they are."""
    found: list[Condition] = status["conditions"]
    if found and all(one.get("type") == Type.OTHER_OPERATOR for one in found):
        return dict(status)  # any other condition would mean that an operator has started the cluster
    named = {str(one.get("type")): one for one in mappings(before.get("conditions"))}
    login = _login_ready(status, named.get(LOGIN_READY), now)
    shown = [_renamed(one) for one in found if one.get("type") != Type.LAUNCHER_WAITING]
    ready = _ready(found, login, named.get(READY), now)
    order = (_NAMES[Type.WORKERS_READY],)
    first = [one for one in shown if one["type"] in order]
    return {**status, "conditions": [ready, *first, login, *(one for one in shown if one["type"] not in order)]}


def reason_of(reason: str) -> str:
    """Return the planner's reason of a condition or event in a virtual cluster's words."""
    for ours, theirs in _WORDS:
        reason = reason.replace(ours, theirs)
    return reason


def _renamed(one: Condition) -> Condition:
    reason = reason_of(str(one.get("reason")))
    kind = str(one.get("type"))
    return {**one, "type": _NAMES.get(Type(kind), kind) if kind in set(Type) else kind, "reason": reason}


def _login_ready(status: Object, old: Condition | None, now: str) -> Condition:
    waiting = conditions.find(status["conditions"], Type.LAUNCHER_WAITING)
    if waiting is not None:
        renamed = _renamed(waiting)
        return conditions.stated(old, LOGIN_READY, "False", str(renamed["reason"]), str(waiting.get("message")), now)
    if status.get("loginReady"):
        return conditions.stated(old, LOGIN_READY, "True", "LoginReady", f"{status.get('loginPod')} is ready", now)
    message = f"{status.get('loginPod') or 'the login pod'} is created when all nodes are ready"
    return conditions.stated(old, LOGIN_READY, "False", _ABSENT, message, now)


def _ready(found: list[Condition], login: Condition, old: Condition | None, now: str) -> Condition:
    """The first reason why the cluster can't be used, or that it can."""
    kinds = (*conditions.BLOCKING, *conditions.NOT_READY, Type.SUSPENDED)
    blocking = [one for kind in kinds if (one := conditions.find(found, kind))]
    nodes = conditions.find(found, Type.WORKERS_READY) or {"message": "the nodes are being created"}
    for one in (*(one for one in blocking if one.get("status") == "True"), nodes, login):
        is_good = one.get("type") in (Type.WORKERS_READY, LOGIN_READY) and one.get("status") == "True"
        if not is_good:
            is_held = one.get("type") in conditions.NOT_READY
            reason = str(one["type"] if is_held else _renamed(one)["reason"] if "type" in one else _ABSENT)
            return conditions.stated(old, READY, "False", reason, str(one.get("message")), now)
    return conditions.stated(old, READY, "True", "Ready", "the nodes and the login pod are ready", now)
