"""The conditions in an MPIJob's status: kubeflow's rules for changing them, and each dialect's messages. Pure.

Running and Restarting exclude each other, Succeeded and Failed make Running False, and the condition that became True
last is last in the list (mpi_job_controller_status.go of mpi-operator v0.3.0 and v0.8.2). `kubectl get` shows the type
of the last one as the job's State, so a condition that is False is never last, nor is one of ours unless it blocks the
job. One of `NOT_READY` is shown instead by our definition, though users' tools find kubeflow's in the last place.

kubeflow's messages are those of mpi-operator v0.8.2 (v2beta1) and of mpi-operator v0.3.0, or else training-operator
v1.9.3 (v1). T9k's are those of its MPIJob document, where it has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import NamedTuple

from agents.job.json_object import Object
from agents.job.model import Dialect

Condition = Object


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
    WORKERS_OUTDATED = "WorkersOutdated"  # their template or a setting has changed, and they are not replaced
    DVM_OUTDATED = "DvmOutdated"  # of a virtual cluster: its DVM runs without some nodes, or with nodes that are gone
    DEBUGGING = "Debugging"  # the launcher waits for its user; if not, the next one will
    RBAC_UNMANAGED = "RbacUnmanaged"  # its message has the rule that someone else must grant
    SETTINGS_IGNORED = "SettingsIgnored"  # names that nothing reads, with the closest that something does
    WORKERS_UNUSED = "WorkersUnused"  # the launcher succeeded, and has started nothing in them
    CREATION_REFUSED = "CreationRefused"  # the API server rejected an object; it is tried again
    RESOURCE_EXISTS = "ErrResourceExists"  # an object that we need exists, and is someone else's
    VALIDATION_ERROR = "ValidationError"  # only an edit of the job helps
    OTHER_OPERATOR = "OtherOperator"  # the job is left to the operator that its message names

    IMAGE_PULL = "ImagePullBackOff"  # why the job is blocked, by Kubernetes' names
    CONFIG_ERROR = "CreateContainerConfigError"
    QUOTA_EXCEEDED = "QuotaExceeded"
    FAILED_CREATE = "FailedCreate"
    UNSCHEDULABLE = "Unschedulable"
    QUEUED = "Queued"
    CRASH_LOOP = "CrashLoopBackOff"


KUBEFLOW = (Type.CREATED, Type.RUNNING, Type.RESTARTING, Type.SUSPENDED, Type.SUCCEEDED, Type.FAILED)
BLOCKING = (Type.RESOURCE_EXISTS, Type.VALIDATION_ERROR, Type.OTHER_OPERATOR)
NOT_READY = (  # the first of them is the State, as the definition's column says: a launcher may crash by any other one
    Type.IMAGE_PULL,
    Type.CONFIG_ERROR,
    Type.QUOTA_EXCEEDED,
    Type.FAILED_CREATE,
    Type.UNSCHEDULABLE,
    Type.QUEUED,
    Type.CRASH_LOOP,
)

_DROPS = {Type.RUNNING: Type.RESTARTING, Type.RESTARTING: Type.RUNNING}
ENDS = (Type.SUCCEEDED, Type.FAILED)


class Change(Enum):
    """How far a condition was changed."""

    NONE = 0
    MESSAGE = 1
    REASON = 2  # or its status


class NewCondition(NamedTuple):
    """A condition without its times."""

    type: Type
    status: bool
    reason: str
    message: str


def find(conditions: Iterable[Condition], wanted: Type) -> Condition | None:
    """Return the condition of this type."""
    return next((one for one in conditions if one.get("type") == wanted), None)


def true_condition(conditions: Iterable[Condition], wanted: str) -> Condition | None:
    """Return the condition of this type whose status is True: of a job, or of any other object."""
    return next((one for one in conditions if one.get("type") == wanted and one.get("status") == "True"), None)


def is_true(conditions: Iterable[Condition], *wanted: Type) -> bool:
    """Whether the condition of one of these types is True."""
    return any(true_condition(conditions, one) for one in wanted)


def one_line(message: str) -> str:
    """Return a message without control characters: it may hold what a container, or a template, has said."""
    return "".join([char if char.isprintable() else " " if char.isspace() else "?" for char in message])


def set_condition(conditions: Sequence[Condition], new: NewCondition, now: str) -> tuple[list[Condition], Change]:
    """Set a condition: return all conditions in order, and how much it differs from before."""
    old, new = find(conditions, new.type), new._replace(message=one_line(new.message))
    change = _difference(old, new)
    if change is Change.NONE:
        return list(conditions), change
    entry = stated(old, str(new.type), str(new.status), new.reason, new.message, now)
    if old is not None and old.get("status") == entry["status"]:
        return [entry if one is old else one for one in conditions], change
    return ordered([*_beside(conditions, new.type), entry]), change


def stated(old: Condition | None, kind: str, status: str, reason: str, message: str, now: str) -> Condition:
    """Return a condition with its times; `old`, the one before, if it says the same."""
    before = old or {}
    if (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, message):
        return before
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": before.get("lastTransitionTime", now) if before.get("status") == status else now,
        "reason": reason,
        "message": message,
    }


def ordered(conditions: Sequence[Condition]) -> list[Condition]:
    """Return them in order: ours, kubeflow's as they were stated, what holds up the job; none that is False last."""
    ours = [one for one in conditions if _rank(one) == 0]
    theirs = [one for one in conditions if _rank(one) == 1]
    shown = next((one for one in reversed(theirs) if one.get("status") == "True"), None)
    if shown is not None:
        theirs = [*(one for one in theirs if one is not shown), shown]
    return ours + theirs + [one for one in conditions if _rank(one) == 2]


def _difference(old: Condition | None, new: NewCondition) -> Change:
    if old is None or (old.get("status"), old.get("reason")) != (str(new.status), new.reason):
        return Change.REASON
    return Change.NONE if old.get("message") == new.message else Change.MESSAGE


def _beside(conditions: Iterable[Condition], new: Type) -> list[Condition]:
    """What stays of the others when `new` is stated."""
    kept = [one for one in conditions if one.get("type") not in (new, _DROPS.get(new))]
    if new not in ENDS:
        return kept
    over = (Type.RUNNING, Type.FAILED)
    return [{**one, "status": "False"} if one.get("type") in over else one for one in kept]


def _rank(condition: Condition) -> int:
    if condition.get("type") in KUBEFLOW:
        return 1
    return 2 if condition.get("type") in BLOCKING and condition.get("status") == "True" else 0


@dataclass(frozen=True, slots=True)
class ConditionText:
    """One condition's reason and message, with `{name}` for the job's name and `{full}` for namespace/name."""

    reason: str
    message: str
    event: str = ""  # its reason, if it is not the condition's
    event_message: str = ""  # likewise


@dataclass(frozen=True, slots=True)
class Messages:
    """A dialect's messages."""

    created: ConditionText
    running: ConditionText
    restarting: ConditionText  # its message has a third part, `why`
    suspended: ConditionText
    not_running: ConditionText  # Running, of a job that is suspended
    resumed: ConditionText
    succeeded: ConditionText
    never_ran: ConditionText  # Running, of a job that has ended
    failure: str  # of the launcher's pod: followed by why
    initialized: ConditionText | None = None  # T9k: what it is created for is there
    reasons: tuple[tuple[str, str], ...] = ()  # of a failure, where they are others than kubeflow's


_V2BETA1 = Messages(
    created=ConditionText("MPIJobCreated", "MPIJob {full} is created."),
    running=ConditionText("MPIJobRunning", "MPIJob {full} is running.", event_message="MPIJob {full} is running"),
    restarting=ConditionText(
        "MPIJobRestarting", "MPIJob {name} is restarting because 1 Launcher replica(s) failed: {why}"
    ),
    suspended=ConditionText("MPIJobSuspended", "MPIJob suspended"),
    not_running=ConditionText("MPIJobSuspended", "MPIJob {full} is suspended."),
    resumed=ConditionText("MPIJobResumed", "MPIJob resumed"),
    succeeded=ConditionText("MPIJobSucceeded", "MPIJob {full} successfully completed."),
    never_ran=ConditionText("MPIJobRunning", "MPIJob {full} is finished but Running condition was never set."),
    failure="MPIJob {full} has failed: ",
)
_V1 = replace(
    _V2BETA1,
    suspended=ConditionText("MPIJobSuspended", "MPIJob {name} is suspended."),
    resumed=ConditionText("MPIJobResumed", "MPIJob {name} is resumed."),
)
_T9K = Messages(
    created=ConditionText("-", "The job is being initialized.", "Created", "MPIJob {full} is created."),
    initialized=ConditionText("-", "The job has been initialized successfully."),
    running=ConditionText("-", "All pods are running normally.", "Running", "All pods of MPIJob {full} are running."),
    restarting=ConditionText("Restarting", "The launcher is created again because it failed: {why}"),
    suspended=ConditionText("Paused", "The job is paused: its pods are deleted, or being deleted."),
    not_running=ConditionText("Paused", "The job is paused."),
    resumed=ConditionText("Resumed", "The job is resumed: its pods are created again."),
    succeeded=ConditionText("-", "The job has completed.", "Completed"),
    never_ran=ConditionText("-", "The job ended before all of its pods were running at the same time."),
    failure="The job exited with an error code. ",
    reasons=(("MPIJobFailed", "Failed"), ("MPIJobEvicted", "Evicted")),
)


_VIRTUAL = Messages(
    created=ConditionText("Created", "Virtual cluster {full} is created."),
    running=ConditionText("Running", "All pods of virtual cluster {full} have been running."),
    restarting=ConditionText("Restarting", "The login pod is replaced because it exited: {why}"),
    suspended=ConditionText("Suspended", "The virtual cluster is suspended: its pods are deleted, or being deleted."),
    not_running=ConditionText("Suspended", "The virtual cluster is suspended."),
    resumed=ConditionText("Resumed", "The virtual cluster is resumed: its pods are created again."),
    succeeded=ConditionText("-", "-"),  # it never ends
    never_ran=ConditionText("-", "-"),
    failure="",
)


def messages_of(dialect: Dialect) -> Messages:
    """Return a dialect's messages."""
    return {Dialect.V1: _V1, Dialect.V2BETA1: _V2BETA1, Dialect.T9K: _T9K, Dialect.VIRTUAL: _VIRTUAL}[dialect]
