"""What `plan` returns: actions as data. Each has a reason, which is logged and which tests compare."""

from __future__ import annotations

from dataclasses import dataclass

from agents.job.json_object import Body
from agents.job.model import KeyType
from agents.job.status import Event
from agents.kube.kinds import Kind


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. An existing one of that name is never changed; see `Observed.name_conflicts`.

    `key_type`: of the Secret of an SSH job, whose `data` is a new key pair of this type.
    """

    kind: Kind
    body: Body
    reason: str
    key_type: KeyType | None = None

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object by a JSON merge patch. Its metadata has uid and resourceVersion: a stale patch is rejected."""

    kind: Kind
    name: str
    body: Body
    reason: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this uid, not a later one of that name. `grace_s`: for a pod; None for its own."""

    kind: Kind
    name: str
    uid: str
    reason: str
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteWorkers:
    """Delete all of the job's worker pods by one request, selected by the label with the job's uid."""

    reason: str
    grace_s: int | None = None  # None: each its own


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the job's status if the job still has this resourceVersion: the next steps depend on what was read.

    An empty status changes nothing; the request only checks the version.
    """

    status: Body
    resource_version: str
    reason: str
    manager: str = ""  # the field manager, if not the default one, by which the operator recognizes its own jobs


Action = Create | Patch | Delete | DeleteWorkers | WriteStatus | Event  # which is recorded: a failure is not retried


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; the actions of one step may run concurrently.

    If an action fails, the plan ends after its step and the job is planned again. `requeue_at` (epoch seconds): when
    the plan changes by time alone; None if only events change it.
    """

    steps: tuple[tuple[Action, ...], ...] = ()
    requeue_at: float | None = None
