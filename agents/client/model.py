"""What the client returns: plain values, as commands show them. Times are epoch seconds.

`as_json` gives the form of `-o json` and `-o yaml`: field names as they are here, times as Kubernetes writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from agents.job.status import format_time


class State(StrEnum):
    """Where a job is in its life."""

    PENDING = "Pending"  # no operator has taken it up
    QUEUED = "Queued"  # a queue, such as Kueue's, has not admitted it
    SUSPENDED = "Suspended"
    BLOCKED = "Blocked"  # only an edit, or a right or quota, helps
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"  # the launcher failed, and is tried again
    DELETING = "Deleting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self in {State.SUCCEEDED, State.FAILED}


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in a line."""

    namespace: str
    name: str
    state: State
    reason: str
    """One word for why it does not run or did not succeed: the kubelet's, the scheduler's, or its own; else ""."""
    ready: int
    """How many workers are ready."""
    workers: int
    """How many workers the job wants."""
    slots: int
    """How many ranks its hosts take."""
    ranks: int | None
    """How many ranks its launcher starts; None if the command line does not say so."""
    created: float | None
    ended: float | None
    queue: str
    position: int | None
    """In Kueue's queue: 1 is the next one; None if the job does not wait there, or Kueue does not say so."""
    resource: str
    """Kind and name as kubectl takes them: `mpijob.kubeflow.org/pi`."""
    dialect: str
    """Whose meaning the job has: v1, v2beta1 or t9k."""
    transport: str
    """`exec` or `ssh`; "" if the job is invalid."""
    uid: str


@dataclass(frozen=True, slots=True)
class PodSummary:
    """A pod of a job."""

    name: str
    role: str
    """launcher or worker."""
    index: int | None
    """A worker's."""
    node: str
    phase: str
    ready: bool
    reason: str
    """One word for why it is not ready, "" if it is."""
    message: str
    """The same as a phrase: `container mpi can't get its image (ErrImagePull): …`."""
    restarts: int
    slots: int
    """How many ranks its host takes."""
    ranks: str
    """Which ranks run there, as `0-3`; "-" for none; "" if that is not certain."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to a job."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is where it is, in a paragraph: `what`, and what to do about it, `remedy` (may be empty).

    `lines` are the last ones of the output of what failed, `output_of` its pod; both empty if nothing failed.
    """

    state: State
    reason: str
    what: str
    remedy: str = ""
    output_of: str = ""
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".rstrip()


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job on one screen."""

    summary: JobSummary
    explanation: Explanation
    launchers: tuple[PodSummary, ...]
    """Oldest first: a launcher that failed may have a successor."""
    workers: tuple[PodSummary, ...]
    """All that the job wants: one that is not there has no node and no phase."""
    timeline: tuple[Step, ...]
    exit_code: int | None = None
    """The launcher's, once it has ended; None if it is not known."""
    notes: tuple[str, ...] = ()
    """What can't be told, and what would tell it."""

    @property
    def state(self) -> State:
        """Where the job is in its life."""
        return self.summary.state


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of a job or of one of its objects."""

    at: float | None
    """When it was seen last."""
    type: str
    """Normal or Warning."""
    reason: str
    object: str
    """Kind and name: `Pod/pi-worker-0`."""
    message: str
    count: int


_TIMES = frozenset({"created", "ended", "at"})


def as_json(value: object) -> Any:
    """Return a value of this module as JSON would have it."""
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    if isinstance(value, str):
        return str(value)
    if not hasattr(value, "__dataclass_fields__"):
        return value
    found = {}
    for field in fields(value):  # type: ignore[arg-type]
        content = getattr(value, field.name)
        is_time = field.name in _TIMES and isinstance(content, float)
        found[field.name] = format_time(content) if is_time else as_json(content)
    return found
