"""An MPIJob's status and events in the fields and messages of the job's dialect. Pure.

Fields are kubeflow's, messages the dialect's (`agents.job.conditions`). What is ours is appended to a message or is a
condition of our own; `readyWorkers` is ours too. For T9k's jobs `agents.job.t9k_status` translates the status to T9k's
when it is written, and back to kubeflow's when it is read; so does `virtual_cluster_status` for VirtualClusters.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple

from agents.job import conditions, t9k_status, virtual_cluster_status
from agents.job.conditions import Change, ConditionText, NewCondition, Type, messages_of
from agents.job.json_object import Body, Object, mappings, part
from agents.job.model import Dialect, Job, is_t9k, is_virtual
from agents.job.t9k_status import Task

MESSAGE_MAX = 1024  # of an Event's message; what is longer the API server refuses

_LINE_MAX = 32_768  # characters of launchCommand: with what it is made of, a longer one fits into no object

DEADLINE_EXCEEDED = "DeadlineExceeded"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
FAILED = "MPIJobFailed"
EVICTED = "MPIJobEvicted"
RANKS_LOST = "RanksLost"

INTERRUPTIONS = "launcherInterruptions"  # a field of ours


class Event(NamedTuple):
    """An Event of the job: `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Counts:
    """One role's pods."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0

    def as_json(self) -> dict[str, int]:
        """Return it as kubeflow's types are written: what is 0 is left out."""
        counts = {"active": self.active, "succeeded": self.succeeded, "failed": self.failed}
        return {name: count for name, count in counts.items() if count}


class Urgency(IntEnum):
    """How soon a changed status is worth a request."""

    NONE = 0  # nothing has changed
    LOW = 1  # counts, or how far the start has got
    PROBLEM = 2  # why the job is blocked
    AT_ONCE = 3


class StatusBuilder:
    """Builds the next status from the current one, and the events that go with the changes."""

    def __init__(self, job: Job | None, resource: Object, now: float) -> None:
        """`job` may be None if only `set_condition` is used."""
        metadata, status = part(resource, "metadata"), part(resource, "status")
        self._name = str(metadata.get("name", ""))
        self._full_name = f"{metadata.get('namespace', '')}/{self._name}"
        self._job, self._resource = job, resource
        self._is_v1 = job is not None and job.dialect is Dialect.V1
        self._is_t9k, self._is_virtual = is_t9k(resource), is_virtual(resource)
        dialect = Dialect.T9K if self._is_t9k else Dialect.VIRTUAL if self._is_virtual else Dialect.V2BETA1
        self._messages = messages_of(dialect if job is None else job.dialect)
        self._before = status
        self._now = format_time(now)
        self.status: Body = dict(status)
        self.status["conditions"] = conditions_of(resource)
        self.events: list[Event] = []
        self.urgency = Urgency.NONE

    def created(self, *, starts: bool, since: float | None = None) -> None:
        """Report that the job was created. If it `starts`, set startTime: to now, or to `since`."""
        self.remove_conditions([Type.OTHER_OPERATOR])
        is_new = conditions.find(self.status["conditions"], Type.CREATED) is None
        if is_new or self._messages.initialized is None:
            self._report(Type.CREATED, self._messages.created, status=self._messages.initialized is None)
        if starts and not self.status.get("startTime"):
            self.fields({"startTime": self._now if since is None else format_time(since)}, Urgency.AT_ONCE)

    def initialized(self) -> None:
        """Report that all objects of the job were created: T9k has a condition for it."""
        if self._messages.initialized is not None:
            text = self._messages.initialized
            condition = NewCondition(Type.CREATED, True, text.reason, self._format(text.message))
            self.set_condition(condition, urgency=Urgency.LOW)

    def running(self) -> None:
        """Report that the launcher and all workers are running."""
        self.initialized()
        self._report(Type.RUNNING, self._messages.running)

    def restarting(self, why: str) -> None:
        """Report that a new launcher pod takes the place of a failed one."""
        text = self._messages.restarting
        message = self._format(text.message, why)
        if self._put(NewCondition(Type.RESTARTING, True, text.reason, message), reports_message=True):
            self.events.append(Event("Warning", text.reason, cut(message)))

    def suspended(self) -> None:
        """Report that the job has, or is to have, no pods until it is resumed."""
        was_running = conditions.is_true(self.status["conditions"], Type.RUNNING)
        self._report(Type.SUSPENDED, self._messages.suspended)
        if was_running or not self._is_v1:
            text = self._messages.not_running
            self._put(NewCondition(Type.RUNNING, False, text.reason, self._format(text.message)))
        self.remove_fields(["startTime"])

    def resumed(self) -> None:
        """Report that a suspended job is resumed; its startTime is reset."""
        if conditions.is_true(self.status["conditions"], Type.SUSPENDED):
            self._report(Type.SUSPENDED, self._messages.resumed, status=False)
            self.fields({"startTime": self._now}, Urgency.AT_ONCE)

    def succeeded(self, at: float, doubt: str = "") -> None:
        """Report that the launcher ended with success at this time. `doubt`: why that may be wrong."""
        self.initialized()
        text = self._messages.succeeded
        message = self._format(text.message)
        self.events.append(Event("Normal", text.event or text.reason, message))
        if doubt:
            self.events.append(Event("Warning", "WorkersLost", cut(doubt)))
        self._end(NewCondition(Type.SUCCEEDED, True, text.reason, f"{message} {doubt}".rstrip()), at)

    def failed(self, at: float, reason: str, message: str) -> None:
        """Report that the job has failed; `reason` is kubeflow's."""
        reason = dict(self._messages.reasons).get(reason, reason)
        self.events.append(Event("Warning", reason, cut(message)))
        self._end(NewCondition(Type.FAILED, True, reason, cut(message)), at)

    def counts(self, launcher: Counts, worker: Counts, ready: str, urgency: Urgency = Urgency.LOW) -> None:
        """State both roles' pods; `ready` as `3/4`. A virtual cluster has fields of its own for that."""
        if self._is_virtual:
            return
        replicas = {"Launcher": launcher.as_json(), "Worker": worker.as_json()}
        self.fields({"replicaStatuses": replicas}, urgency)
        if ready:
            self.status["readyWorkers"] = ready  # no urgency: WorkersReady reports it, and a CRD may not know the field
        else:
            self.status.pop("readyWorkers", None)

    def interruptions(self, count: int) -> None:
        """State how many of the launcher's failed pods were interrupted; 0: none since the job has had any."""
        if count != self.status.get(INTERRUPTIONS, 0) and not self._is_virtual:
            self.status.pop(INTERRUPTIONS, None)
            self.status |= {INTERRUPTIONS: count} if count else {}
            self._at_least(Urgency.LOW)

    def tasks(self, tasks: Sequence[Task]) -> None:
        """State the pods of each role: T9k's status lists them."""
        self.fields(t9k_status.tasks(self._resource, tasks))

    def fields(self, stated: Object, urgency: Urgency = Urgency.LOW) -> None:
        """State fields of the status."""
        for field, value in stated.items():
            if self.status.get(field) != value:
                self.status[field] = value
                self._at_least(urgency)

    def remove_fields(self, fields: Iterable[str]) -> None:
        """Remove fields of the status."""
        for field in fields:
            if field in self.status:
                del self.status[field]
                self._at_least(Urgency.AT_ONCE)

    def set_condition(
        self, stated: NewCondition, event: Event | None = None, urgency: Urgency = Urgency.AT_ONCE
    ) -> None:
        """Set a condition of our own. `event` is recorded for a new condition or reason, not for a new message."""
        self.status["conditions"], change = conditions.set_condition(self.status["conditions"], stated, self._now)
        if change is Change.REASON:
            self._at_least(urgency)
            if event is not None:
                reason = virtual_cluster_status.reason_of(event.reason) if self._is_virtual else event.reason
                self.events.append(event._replace(reason=reason, message=cut(conditions.one_line(event.message))))
        elif change is Change.MESSAGE:
            self._at_least(min(urgency, Urgency.PROBLEM))

    def report(
        self,
        kind: Type,
        status: bool,  # noqa: FBT001 (as in NewCondition)
        reason: str,
        message: str,
        urgency: Urgency = Urgency.AT_ONCE,
        *,
        event: str = "Warning",
    ) -> None:
        """Set a condition of our own, with an event of this type that says the same; without a message remove it."""
        if message:
            self.set_condition(NewCondition(kind, status, reason, message), Event(event, reason, message), urgency)
        else:
            self.remove_conditions([kind])

    def remove_conditions(self, types: Iterable[Type]) -> None:
        """Remove conditions of our own that no longer hold."""
        for one in types:
            kept = [each for each in self.status["conditions"] if each.get("type") != one]
            if len(kept) < len(self.status["conditions"]):
                self.status["conditions"] = conditions.ordered(kept)
                self._at_least(Urgency.AT_ONCE if one in conditions.BLOCKING else Urgency.LOW)

    def build(self) -> Body:
        """Return the status to write."""
        status = {**self.status, "lastReconcileTime": self._now}
        if self._job is not None and self._job.launch_command:
            line = shlex.join(self._job.launch_command)
            status["launchCommand"] = line if len(line) <= _LINE_MAX else f"{line[:_LINE_MAX]}…"
        if self._is_virtual:
            return virtual_cluster_status.to_virtual(status, self._before, self._now)
        if not self._is_t9k:
            return {"replicaStatuses": {}, **status}  # without it, training-operator's definition takes none
        return t9k_status.to_t9k(status, self._before, self._now, is_readable=self._job is not None)

    def _report(self, kind: Type, text: ConditionText, *, status: bool = True) -> None:
        """State one of kubeflow's conditions, and record an event if that is worth one."""
        message = self._format(text.message)
        if self._put(NewCondition(kind, status, text.reason, message)):
            event_message = self._format(text.event_message) if text.event_message else message
            self.events.append(Event("Normal", text.event or text.reason, event_message))

    def _format(self, template: str, why: str = "") -> str:
        return template.format(name=self._name, full=self._full_name, why=why)

    def _put(self, stated: NewCondition, *, reports_message: bool = False) -> bool:
        """State one of kubeflow's conditions; return whether that is worth an event."""
        self.status["conditions"], change = conditions.set_condition(self.status["conditions"], stated, self._now)
        if change is not Change.NONE:
            self.urgency = Urgency.AT_ONCE
        return change is Change.REASON or (reports_message and change is Change.MESSAGE)

    def _end(self, stated: NewCondition, at: float) -> None:
        self._put(stated)
        self.fields({"completionTime": format_time(at)}, Urgency.AT_ONCE)
        self.remove_conditions((Type.WORKERS_READY, Type.LAUNCHER_WAITING, Type.WORKERS_OUTDATED))
        self.remove_conditions((Type.CREATION_REFUSED, Type.DEBUGGING, *conditions.BLOCKING, *conditions.NOT_READY))
        running = conditions.find(self.status["conditions"], Type.RUNNING)
        was_paused = self._is_t9k and running is not None and running.get("reason") == self._messages.not_running.reason
        if was_paused or (running is None and not self._is_v1):
            text = self._messages.never_ran
            self._put(NewCondition(Type.RUNNING, False, text.reason, self._format(text.message)))

    def _at_least(self, urgency: Urgency) -> None:
        self.urgency = max(self.urgency, urgency)


def conditions_of(resource: Object) -> list[Object]:
    """Return the job's conditions, by kubeflow's types; none for what is no list of objects."""
    found = raw_conditions(resource)
    if is_virtual(resource):
        return virtual_cluster_status.from_virtual(found)
    return t9k_status.from_t9k(found) if is_t9k(resource) else found


def raw_conditions(resource: Object) -> list[Object]:
    """Return the job's conditions as they stand there."""
    return list(mappings(part(resource, "status").get("conditions")))


def has_begun(resource: Object) -> bool:
    """Whether an operator has written more of the job's status than to whom the job is left."""
    return any(one.get("type") != Type.OTHER_OPERATOR for one in raw_conditions(resource))


def is_finished(resource: Object) -> bool:
    """Whether the job has succeeded or failed: nothing but clean-up is left to be done."""
    found = conditions_of(resource)
    return conditions.is_true(found, *conditions.ENDS)


def format_time(at: float) -> str:
    """Return epoch seconds as Kubernetes writes a time."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: object) -> float | None:
    """Return a time that Kubernetes has written as epoch seconds, None for what is no time that it could write."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def cut(message: str) -> str:
    """Return the message, cut as kubeflow cuts it, if it is too long for an Event."""
    encoded = message.encode()
    if len(encoded) <= MESSAGE_MAX:
        return message
    return encoded[: MESSAGE_MAX - 3].decode(errors="ignore") + "..."
