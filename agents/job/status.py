"""An MPIJob's status and events, in the words of the job's dialect. Pure: it is told what has happened.

Fields are kubeflow's, words the dialect's (`agents.job.words`). What is ours is added to a message's end, or is a
condition of our own (`agents.job.conditions`); `readyWorkers` is ours too. Of T9k's jobs `agents.job.t9k_status` makes
another status when it is written, and kubeflow's of it when it is read.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from agents.job import conditions, t9k_status
from agents.job.conditions import Change, Stated, Type
from agents.job.dialects import is_t9k
from agents.job.model import Dialect
from agents.job.words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agents.job.model import Job, Object
    from agents.job.t9k_status import Task
    from agents.job.words import Told

MESSAGE_MAX = 1024  # of an Event's message; what is longer the API server refuses

DEADLINE_EXCEEDED = "DeadlineExceeded"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
FAILED = "MPIJobFailed"
EVICTED = "MPIJobEvicted"


class Event(NamedTuple):
    """What is told of the job beside its status: `type` is Normal or Warning."""

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
    TROUBLE = 2  # why something does not go on
    AT_ONCE = 3


class Draft:
    """The next status: what it is now, changed by what has happened, and the events that come with that."""

    def __init__(self, job: Job | None, resource: Object, now: float) -> None:
        """`job` may be None where only `note` is used."""
        metadata, status = _mapping(resource.get("metadata")), _mapping(resource.get("status"))
        self._name = str(metadata.get("name", ""))
        self._full_name = f"{metadata.get('namespace', '')}/{self._name}"
        self._job, self._resource = job, resource
        self._is_v1 = job is not None and job.dialect is Dialect.V1
        self._is_t9k = is_t9k(resource)
        dialect = Dialect.T9K if self._is_t9k else Dialect.V2BETA1
        self._words = words_of(dialect if job is None else job.dialect)
        self._before = status
        self._now = time_text(now)
        self.status: dict[str, Any] = dict(status)
        self.status["conditions"] = conditions_of(resource)
        self.events: list[Event] = []
        self.urgency = Urgency.NONE

    def created(self, *, starts: bool) -> None:
        """Say that the job is known, and if it `starts` now, that its time runs."""
        is_new = conditions.find(self.status["conditions"], Type.CREATED) is None
        if is_new or self._words.initialized is None:
            self._tell(Type.CREATED, self._words.created, status=self._words.initialized is None)
        if starts and not self.status.get("startTime"):
            self._set("startTime", self._now)

    def initialized(self) -> None:
        """Say that all that the job needs has been made: T9k has a word for it."""
        if self._words.initialized is not None:
            told = self._words.initialized
            self.note(Stated(Type.CREATED, True, told.reason, self._said(told.message)), urgency=Urgency.LOW)

    def running(self) -> None:
        """Say that the launcher and all workers are running."""
        self.initialized()
        self._tell(Type.RUNNING, self._words.running)

    def restarting(self, why: str) -> None:
        """Say that a new launcher pod takes the place of a failed one."""
        told = self._words.restarting
        message = self._said(told.message, why)
        if self._put(Stated(Type.RESTARTING, True, told.reason, message), tells_message=True):
            self.events.append(Event("Warning", told.reason, cut(message)))

    def suspended(self) -> None:
        """Say that the job has, or is to have, no pods until it is resumed."""
        was_running = conditions.is_true(self.status["conditions"], Type.RUNNING)
        self._tell(Type.SUSPENDED, self._words.suspended)
        if was_running or not self._is_v1:
            told = self._words.not_running
            self._put(Stated(Type.RUNNING, False, told.reason, self._said(told.message)))
        if "startTime" in self.status:
            del self.status["startTime"]
            self.urgency = Urgency.AT_ONCE

    def resumed(self) -> None:
        """Say that a suspended job goes on, if it was suspended; its time begins anew."""
        if conditions.is_true(self.status["conditions"], Type.SUSPENDED):
            self._tell(Type.SUSPENDED, self._words.resumed, status=False)
            self._set("startTime", self._now)

    def succeeded(self, at: float, but: str = "") -> None:
        """Say that the launcher ended with success at this time. `but`: what there is to doubt it."""
        self.initialized()
        told = self._words.succeeded
        message = self._said(told.message)
        self.events.append(Event("Normal", told.event or told.reason, message))
        if but:
            self.events.append(Event("Warning", "WorkersLost", cut(but)))
        self._end(Stated(Type.SUCCEEDED, True, told.reason, f"{message} {but}".rstrip()), at)

    def failed(self, at: float, reason: str, message: str) -> None:
        """Say that the job has failed for good; `reason` in kubeflow's words."""
        reason = dict(self._words.reasons).get(reason, reason)
        self.events.append(Event("Warning", reason, cut(message)))
        self._end(Stated(Type.FAILED, True, reason, cut(message)), at)

    def counts(self, launcher: Counts, worker: Counts, ready: str, urgency: Urgency = Urgency.LOW) -> None:
        """State both roles' pods; `ready` as `3/4`."""
        replicas = {"Launcher": launcher.as_json(), "Worker": worker.as_json()}
        if self.status.get("replicaStatuses") != replicas:
            self.status["replicaStatuses"] = replicas
            self._at_least(urgency)
        if ready:
            self.status["readyWorkers"] = (
                ready  # no urgency: WorkersReady tells of it, and a CRD may not know the field
            )
        else:
            self.status.pop("readyWorkers", None)

    def tasks(self, tasks: Sequence[Task]) -> None:
        """State the pods of each role: T9k's status lists them."""
        for field, listed in t9k_status.tasks(self._resource, tasks).items():
            if self.status.get(field) != listed:
                self.status[field] = listed
                self._at_least(Urgency.LOW)

    def note(self, stated: Stated, event: Event | None = None, urgency: Urgency = Urgency.AT_ONCE) -> None:
        """State a condition of our own. `event` goes with a new one or a new reason, not with a new message."""
        self.status["conditions"], change = conditions.put(self.status["conditions"], stated, self._now)
        if change is Change.REASON:
            self._at_least(urgency)
            if event is not None:
                self.events.append(event._replace(message=cut(event.message)))
        elif change is Change.MESSAGE:
            self._at_least(min(urgency, Urgency.TROUBLE))

    def forget(self, types: Iterable[Type]) -> None:
        """Take back conditions of our own that do not hold any more."""
        for one in types:
            if conditions.find(self.status["conditions"], one) is not None:
                self.status["conditions"] = conditions.drop(self.status["conditions"], one)
                self._at_least(Urgency.AT_ONCE if one in conditions.HOLDING_UP else Urgency.LOW)

    def written(self) -> dict[str, Any]:
        """Return the status to write."""
        status = {**self.status, "lastReconcileTime": self._now}
        if self._job is not None and self._job.launch_command:
            status["launchCommand"] = shlex.join(self._job.launch_command)
        if not self._is_t9k:
            return status
        return t9k_status.face(status, self._before, self._now, is_readable=self._job is not None)

    def _tell(self, kind: Type, told: Told, *, status: bool = True) -> None:
        """State one of kubeflow's conditions, and record an event if that is worth one."""
        message = self._said(told.message)
        if self._put(Stated(kind, status, told.reason, message)):
            words = self._said(told.event_message) if told.event_message else message
            self.events.append(Event("Normal", told.event or told.reason, words))

    def _said(self, template: str, why: str = "") -> str:
        return template.format(name=self._name, full=self._full_name, why=why)

    def _put(self, stated: Stated, *, tells_message: bool = False) -> bool:
        """State one of kubeflow's conditions; return whether that is worth an event."""
        self.status["conditions"], change = conditions.put(self.status["conditions"], stated, self._now)
        if change is not Change.NONE:
            self.urgency = Urgency.AT_ONCE
        return change is Change.REASON or (tells_message and change is Change.MESSAGE)

    def _end(self, stated: Stated, at: float) -> None:
        self._put(stated)
        self._set("completionTime", time_text(at))
        self.forget((Type.WORKERS_READY, Type.LAUNCHER_WAITING, Type.WORKERS_OUTDATED, Type.CREATION_REFUSED))
        self.forget((Type.DEBUGGING, *conditions.HOLDING_UP))
        running = conditions.find(self.status["conditions"], Type.RUNNING)
        was_paused = self._is_t9k and running is not None and running.get("reason") == self._words.not_running.reason
        if was_paused or (running is None and not self._is_v1):
            told = self._words.never_ran
            self._put(Stated(Type.RUNNING, False, told.reason, self._said(told.message)))

    def _set(self, field: str, text: str) -> None:
        self.status[field] = text
        self.urgency = Urgency.AT_ONCE

    def _at_least(self, urgency: Urgency) -> None:
        self.urgency = max(self.urgency, urgency)


def conditions_of(resource: Object) -> list[Mapping[str, Any]]:
    """Return the job's conditions, by kubeflow's types; none for what is no list of objects."""
    found = raw_conditions(resource)
    return t9k_status.canonical(found) if is_t9k(resource) else found


def raw_conditions(resource: Object) -> list[Mapping[str, Any]]:
    """Return the job's conditions as they stand there."""
    found = _mapping(resource.get("status")).get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def is_finished(resource: Object) -> bool:
    """Whether the job has succeeded or failed: nothing but clean-up is left to be done."""
    found = conditions_of(resource)
    return conditions.is_true(found, Type.SUCCEEDED) or conditions.is_true(found, Type.FAILED)


def time_text(at: float) -> str:
    """Return epoch seconds as Kubernetes writes a time."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: object) -> float | None:
    """Return a time that Kubernetes has written as epoch seconds, None for what is no time."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def cut(message: str) -> str:
    """Return the message, cut as kubeflow cuts it, if it is too long for an Event."""
    encoded = message.encode()
    if len(encoded) <= MESSAGE_MAX:
        return message
    return encoded[: MESSAGE_MAX - 3].decode(errors="ignore") + "..."


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
