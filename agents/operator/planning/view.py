"""A job and its objects as every part of the plan sees them: as observed, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agents.common.not_ready import NotReady, not_ready
from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import Object, part
from agents.job.model import Job
from agents.job.status import conditions_of, seconds
from agents.kube.kinds import Kind
from agents.operator.planning.pods import End, PodView, own_containers
from agents.operator.settings import PodSettings


@dataclass(frozen=True, slots=True)
class Observed:
    """One job's objects from the caches: trimmed (`trim`), and possibly stale.

    `pods` have the job's uid as a label and the job as their controller. `name_conflicts` are objects (kind, name) that
    the job needs but another owner has. `rejected` are objects that the API server rejected: (kind, name) → its
    message; an entry is removed when a later try succeeds or the job is edited. `seen_at`: when the operator first saw
    the job, by its own clock.
    """

    resource: Object  # the MPIJob itself, with its status
    pods: tuple[Object, ...] = ()
    launcher_job: Object | None = None  # batch Job, v2beta1
    gone_launcher: Object | None = None  # its last pod that was deleted, as it was last seen
    config_map: Object | None = None
    service: Object | None = None
    service_account: Object | None = None
    secret: Object | None = None  # only its metadata, without the keys
    role: Object | None = None
    role_binding: Object | None = None
    pod_group: Object | None = None
    name_conflicts: frozenset[tuple[str, str]] = frozenset()
    rejected: Mapping[tuple[str, str], str] = field(default_factory=dict)
    seen_at: float = 0.0


@dataclass(frozen=True)
class View:
    """What is known when a job is planned."""

    job: Job
    observed: Observed
    settings: PodSettings
    now: float  # epoch seconds
    pinned: Mapping[str, str] = field(default_factory=dict)  # settings of the job's pods that differ from its spec
    unresumed: Job | None = None  # without its resumeSpecs: what pods from before a suspension were created from

    @cached_property
    def workers(self) -> dict[int, PodView]:
        """The worker pods that are there, by index and in its order, surplus ones included."""
        found = {self._index(pod): pod for pod in self._pods}
        return {index: found[index] for index in sorted(one for one in found if one is not None)}

    @cached_property
    def launchers(self) -> tuple[PodView, ...]:
        """The launcher's pods, oldest first: of a v1 job at most one."""
        found = (pod for pod in self._pods if self._index(pod) is None)
        return tuple(sorted(found, key=lambda pod: (pod.created_at, pod.name)))

    @cached_property
    def gone_launcher(self) -> PodView | None:
        """The last pod of the launcher's batch Job that was deleted."""
        return None if self.observed.gone_launcher is None else PodView(self.observed.gone_launcher)

    @property
    def wanted(self) -> range:
        """The indexes of the workers that the job wants."""
        return range(self.job.worker.replicas)

    @property
    def surplus(self) -> dict[int, PodView]:
        """Workers that are there and not wanted, by index."""
        return {index: pod for index, pod in self.workers.items() if index not in self.wanted}

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """The hostfile's workers: a new one before it is created, a surplus one until it is gone."""
        return (*self.wanted, *self.surplus)

    @property
    def ready(self) -> int:
        """How many of the wanted workers are ready."""
        return sum(self.is_ready(index) for index in self.wanted)

    @cached_property
    def unready(self) -> dict[int, NotReady]:
        """Why wanted workers are not ready, by index."""
        states = ((index, self.workers.get(index)) for index in self.wanted)
        reasons = ((index, not_ready(None if pod is None else pod.state)) for index, pod in states)
        return {index: reason for index, reason in reasons if reason is not None}

    def is_ready(self, index: int) -> bool:
        """Whether this worker is there, ready and to stay."""
        pod = self.workers.get(index)
        return pod is not None and pod.state.ready and not pod.is_going

    @property
    def status(self) -> Object:
        """The job's status as it was last written."""
        return part(self.observed.resource, "status")

    @property
    def conditions(self) -> list[Object]:
        """The conditions in it."""
        return conditions_of(self.observed.resource)

    @cached_property
    def is_stopping(self) -> bool:
        """Whether the job must have no pods: until it is resumed, and then until its old pods are gone."""
        was_suspended = conditions.is_true(self.conditions, Type.SUSPENDED)
        return self.job.policy.is_suspended or (was_suspended and bool(self._pods))

    @cached_property
    def launcher_containers(self) -> frozenset[str]:
        """The containers whose end is the launcher's."""
        return own_containers(self.job.launcher.template, self.job.main_container)

    @cached_property
    def worker_containers(self) -> frozenset[str]:
        """The containers whose end is a worker's."""
        return own_containers(self.job.worker.template, self.job.main_container)

    def launcher_end(self, pod: PodView) -> End | None:
        """Return how a pod of the launcher ended, None if it did not."""
        return pod.end(self.launcher_containers, self.job.launcher.restart_policy)

    def worker_end(self, pod: PodView) -> End | None:
        """Return how a worker ended, None if it did not."""
        return pod.end(self.worker_containers, self.job.worker.restart_policy)

    def time(self, field: str) -> float | None:
        """Return a time of the status as epoch seconds."""
        return seconds(self.status.get(field))

    def rejection(self, kind: Kind, name: str) -> str:
        """Return the API server's message if it rejected this object, else ""."""
        return self.observed.rejected.get((kind.name, name), "")

    def is_invalid(self, kind: Kind, name: str) -> bool:
        """Whether this object was rejected as invalid: only an edit of the job helps."""
        return is_invalid_message(self.rejection(kind, name))

    @cached_property
    def _pods(self) -> tuple[PodView, ...]:
        return tuple(map(PodView, self.observed.pods))

    def _index(self, pod: PodView) -> int | None:
        """Return a worker pod's index, None for a launcher's."""
        prefix = self.job.worker_name(0)[:-1]
        digits = pod.name.removeprefix(prefix)
        is_number = digits != pod.name and digits.isascii() and digits.isdigit()
        return int(digits) if is_number and str(int(digits)) == digits else None


def is_invalid_message(message: str) -> bool:
    """Whether the API server's message is that of 422 Invalid, or of 400 for a field of a wrong type."""
    return " is invalid: " in message or " cannot be handled as a " in message
