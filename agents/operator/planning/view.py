"""One job, what is there of it, and what time it is: what every part of plan is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.status import conditions_of, seconds
from agents.operator.planning.pods import PodView, own_containers
from agents.operator.planning.values import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.model import Job
    from agents.operator.kinds import Kind
    from agents.operator.observed import Observed
    from agents.operator.settings import PodSettings


@dataclass(frozen=True)
class View:
    """What is known when a job is planned."""

    job: Job
    observed: Observed
    settings: PodSettings
    now: float  # epoch seconds
    kept: Mapping[str, str] = field(default_factory=dict)  # settings that the job's pods have, and that it would change

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
        """The hostfile's and the Role's workers: a new one before it is created, a surplus one until it is gone."""
        return (*self.wanted, *self.surplus)

    @property
    def ready(self) -> int:
        """How many of the wanted workers are ready."""
        return sum(self.is_ready(index) for index in self.wanted)

    def is_ready(self, index: int) -> bool:
        """Whether this worker is there, ready and to stay."""
        pod = self.workers.get(index)
        return pod is not None and pod.state.ready and not pod.is_going

    @property
    def status(self) -> Mapping[str, Any]:
        """The job's status as it was last written."""
        return mapping(self.observed.resource.get("status"))

    @property
    def conditions(self) -> list[Mapping[str, Any]]:
        """The conditions in it."""
        return conditions_of(self.observed.resource)

    @cached_property
    def is_stopping(self) -> bool:
        """Whether the job is to have no pods: until it is resumed, and then until those of before are gone."""
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

    def time(self, field: str) -> float | None:
        """Return a time of the status as epoch seconds."""
        return seconds(self.status.get(field))

    def refusal(self, kind: Kind, name: str) -> str:
        """Return the API server's words when it would not take this object; "" if it did, or was not asked."""
        return self.observed.refused.get((kind.name, name), "")

    def is_faulty(self, kind: Kind, name: str) -> bool:
        """Whether this object was refused for what is in it: no other try helps, only an edit of the job."""
        return is_fault(self.refusal(kind, name))

    @cached_property
    def _pods(self) -> tuple[PodView, ...]:
        return tuple(map(PodView, self.observed.pods))

    def _index(self, pod: PodView) -> int | None:
        """Return a worker pod's index, None for a launcher's."""
        prefix = self.job.worker_name(0)[:-1]
        digits = pod.name.removeprefix(prefix)
        return int(digits) if digits != pod.name and digits.isascii() and digits.isdigit() else None


def is_fault(words: str) -> bool:
    """Whether the API server's words for a refusal are those of 422 Invalid, or of 400 for a field of a wrong type."""
    return " is invalid: " in words or " cannot be handled as a " in words
