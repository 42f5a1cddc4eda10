"""The list of conditions in an MPIJob's status: kubeflow's rules for changing it, and where our own ones stand. Pure.

Of kubeflow's: Running and Restarting shut each other out, Succeeded and Failed make Running False, and what has become
True stands last (mpi_job_controller_status.go of mpi-operator v0.3.0 and v0.8.2). `kubectl get` shows the type of the
last one as the job's State, so what is False never stands there, nor does one of ours unless it holds up the job.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Condition = Mapping[str, Any]


class Type(StrEnum):
    """The conditions that there are. From Created to Failed they are kubeflow's."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    WORKERS_READY = "WorkersReady"  # if not, its message says which are not, and why
    LAUNCHER_WAITING = "LauncherWaiting"  # it is there and does not run; its message says why
    WORKERS_OUTDATED = "WorkersOutdated"  # their template or a setting has changed since, and they are kept
    DEBUGGING = "Debugging"  # the launcher waits for its user; if not, the next one will
    RBAC_UNMANAGED = "RbacUnmanaged"  # its message has the rule that someone else must grant
    CREATION_REFUSED = "CreationRefused"  # the API server would not take an object; it is tried again
    RESOURCE_EXISTS = "ErrResourceExists"  # what we want to make is there, and someone else's
    VALIDATION_ERROR = "ValidationError"  # nothing but an edit of the job heals it


KUBEFLOW = (Type.CREATED, Type.RUNNING, Type.RESTARTING, Type.SUSPENDED, Type.SUCCEEDED, Type.FAILED)
HOLDING_UP = (Type.RESOURCE_EXISTS, Type.VALIDATION_ERROR)

_DROPS = {Type.RUNNING: Type.RESTARTING, Type.RESTARTING: Type.RUNNING}
_ENDS = (Type.SUCCEEDED, Type.FAILED)


class Change(Enum):
    """How far a condition was changed."""

    NONE = 0
    MESSAGE = 1
    REASON = 2  # or its status


class Stated(NamedTuple):
    """A condition without its times."""

    type: Type
    status: bool
    reason: str
    message: str


def find(conditions: Iterable[Condition], wanted: Type) -> Condition | None:
    """Return the condition of this type."""
    return next((one for one in conditions if one.get("type") == wanted), None)


def is_true(conditions: Iterable[Condition], wanted: Type) -> bool:
    """Whether there is one of this type, and its status is True."""
    found = find(conditions, wanted)
    return found is not None and found.get("status") == "True"


def put(conditions: Sequence[Condition], new: Stated, now: str) -> tuple[list[Condition], Change]:
    """State a condition: return all of them in their order, and how far it differs from what was said before."""
    old = find(conditions, new.type)
    status = str(new.status)
    change = _difference(old, new)
    if change is Change.NONE:
        return list(conditions), change
    is_same_status = old is not None and old.get("status") == status
    entry = {
        "type": str(new.type),
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": old.get("lastTransitionTime", now) if old is not None and is_same_status else now,
        "reason": new.reason,
        "message": new.message,
    }
    if old is not None and is_same_status:
        return [entry if one is old else one for one in conditions], change
    return arranged([*_beside(conditions, new.type), entry]), change


def drop(conditions: Iterable[Condition], unwanted: Type) -> list[Condition]:
    """Return them without the one of this type."""
    return arranged([one for one in conditions if one.get("type") != unwanted])


def arranged(conditions: Sequence[Condition]) -> list[Condition]:
    """Return them in order: ours, kubeflow's as they were stated, what holds up the job; none that is False last."""
    ours = [one for one in conditions if _rank(one) == 0]
    theirs = [one for one in conditions if _rank(one) == 1]
    shown = next((one for one in reversed(theirs) if one.get("status") == "True"), None)
    if shown is not None:
        theirs = [*(one for one in theirs if one is not shown), shown]
    return ours + theirs + [one for one in conditions if _rank(one) == 2]


def _difference(old: Condition | None, new: Stated) -> Change:
    if old is None or (old.get("status"), old.get("reason")) != (str(new.status), new.reason):
        return Change.REASON
    return Change.NONE if old.get("message") == new.message else Change.MESSAGE


def _beside(conditions: Iterable[Condition], new: Type) -> list[Condition]:
    """What stays of the others when `new` is stated."""
    kept = [one for one in conditions if one.get("type") not in (new, _DROPS.get(new))]
    if new not in _ENDS:
        return kept
    over = (Type.RUNNING, Type.FAILED)
    return [{**one, "status": "False"} if one.get("type") in over else one for one in kept]


def _rank(condition: Condition) -> int:
    if condition.get("type") in KUBEFLOW:
        return 1
    return 2 if condition.get("type") in HOLDING_UP and condition.get("status") == "True" else 0
