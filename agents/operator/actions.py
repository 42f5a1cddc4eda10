"""What `plan` asks for, as data. Each action carries its reason, which the log shows and tests compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents.operator.kinds import SECRET

if TYPE_CHECKING:
    from agents.job.model import KeyType
    from agents.operator.kinds import Kind


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object. One of its name that is there already is never touched: `Observed.taken` tells of it."""

    kind: Kind
    body: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class CreateKeys:
    """Make the Secret of an ssh job, with a new pair of keys put into it. As with `Create`, one that is there stays."""

    body: dict[str, Any]  # without `data`
    key_type: KeyType
    reason: str

    @property
    def kind(self) -> Kind:
        """A Secret."""
        return SECRET


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object by a JSON merge patch, whose metadata names uid and resourceVersion: an older one is refused."""

    kind: Kind
    name: str
    body: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object of this uid, and none that has taken its name since."""

    kind: Kind
    name: str
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteWorkers:
    """Delete all of the job's worker pods by one request (they carry the job's uid as a label: no others do)."""

    reason: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the job's status, if the job is still at this resourceVersion: what follows rests on what was read."""

    status: dict[str, Any]
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Record an Event of the job: `type` is Normal or Warning. A lost one is lost."""

    type: str
    reason: str
    message: str


Action = Create | CreateKeys | Patch | Delete | DeleteWorkers | WriteStatus | Emit


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order; the actions of one step may be carried out side by side.

    A failed action ends the plan after its step, and the job is planned anew. `again_at` (epoch seconds): when time
    alone will change the plan; None if only events will.
    """

    steps: tuple[tuple[Action, ...], ...] = ()
    again_at: float | None = None
