"""The operator on a simulated API server: real caches, executor and plan, without threads, and with a chosen fate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from simulated_api import NAMESPACE, SimulatedApi

from agents.job.read import read
from agents.operator.actions import Create, Emit, WriteStatus
from agents.operator.caches import Caches
from agents.operator.executor import Executor, Memory
from agents.operator.kinds import BATCH_JOB, MPI_JOB_V2BETA1, POD
from agents.operator.metrics import Metrics
from agents.operator.plan import plan
from agents.operator.settings import PodSettings

if TYPE_CHECKING:
    from agents.operator.api import Api
    from agents.operator.errors import ApiError
    from agents.operator.recorder import Recorder
    from agents.operator.store import Store

Body = dict[str, Any]

TAKEN_KEPT_S = 60.0


class Recording:
    """Takes the place of the recorder of events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def emit(self, resource: Body, event: Emit) -> None:
        self.events.append((event.type, event.reason, event.message))


class SimulatedOperator:
    """Plans one job when there is cause to: an event, what it did itself, a failed request, or the time it named."""

    def __init__(self, api: SimulatedApi, name: str = "pi", settings: PodSettings | None = None) -> None:
        self.api, self.name = api, name
        self.settings = settings or PodSettings(image="mpi-agents:test")
        self.recording = Recording()
        self.start()

    def start(self) -> None:
        """Begin with empty caches and no memory, and list."""
        self.caches = Caches(MPI_JOB_V2BETA1, self.settings.gang_scheduler)
        self.caches.on_job = lambda _key: self._wake()
        self._stores: dict[str, Store] = {kind.kind.plural: kind for kind in self._all_stores()}
        metrics = Metrics()
        self.executor = Executor(cast("Api", self.api), self.caches, cast("Recorder", self.recording), metrics)
        self.memory: Memory | None = None
        self.again_at: float | None = None
        self.is_due = True
        for plural, store in self._stores.items():
            store.replace(self.api.all(plural), str(10**9))
        self._read = dict.fromkeys(self._stores, len(self.api.log))

    def deliver(self, plural: str, most: int = 10**6) -> None:
        """Let so many of the watch events of one kind come in."""
        position, store = self._read[plural], self._stores[plural]
        while position < len(self.api.log) and most > 0:
            seen = self.api.log[position]
            position += 1
            if seen.kind == plural:
                most -= 1
                self._take(store, seen.body, is_gone=seen.is_gone)
        self._read[plural] = position

    def deliver_all(self) -> None:
        for plural in self._stores:
            self.deliver(plural)

    def repeat(self, plural: str) -> None:
        """Let an old event of a kind come in once more."""
        for seen in self.api.log[: self._read[plural]][-6:]:
            if seen.kind == plural and not seen.is_gone:
                self._take(self._stores[plural], seen.body, is_gone=False)

    def has_cause(self) -> bool:
        next_at = self.next_at()
        return self.is_due or (next_at is not None and next_at <= self.api.now)

    def next_at(self) -> float | None:
        """When there will be cause, whatever comes."""
        taken = self.memory.taken.values() if self.memory is not None else ()
        times = [at + TAKEN_KEPT_S for at in taken] + ([] if self.again_at is None else [self.again_at])
        return min(times, default=None)

    def reconcile(self, crash_after: int | None = None) -> int:
        """Plan once and act; end as if killed after so many actions. Return how many were carried out."""
        self.is_due, self.again_at = False, None
        resource = self.caches.jobs.get(NAMESPACE, self.name)
        if resource is None:
            self.memory = None
            return 0
        memory = self._remember(resource)
        observed = self.caches.observe(resource, frozenset(memory.taken), memory.refused)
        planned = plan(read(resource), observed, self.settings, self.api.now)
        makes_pods = any(
            isinstance(one, Create) and one.kind in (POD, BATCH_JOB) for step in planned.steps for one in step
        )
        assert not makes_pods or isinstance(planned.steps[0][0], WriteStatus)
        done = 0
        for step in planned.steps:
            failures: list[ApiError] = []
            for action in step:
                if done == crash_after:
                    self.start()
                    return done
                failures += self.executor.carry_out(resource, memory, (action,), self.api.now)
                done += 1
            if failures:
                self.is_due = True
                return done
        self.again_at = planned.again_at
        self.is_due |= bool(planned.steps)
        return done

    def _remember(self, resource: Body) -> Memory:
        metadata, memory = resource["metadata"], self.memory
        if memory is None or memory.uid != metadata["uid"]:
            memory = self.memory = Memory(metadata["uid"])
        if memory.generation != metadata["generation"]:
            memory.generation, memory.refused, memory.taken = metadata["generation"], {}, {}
        memory.taken = {key: at for key, at in memory.taken.items() if self.api.now - at < TAKEN_KEPT_S}
        return memory

    def _all_stores(self) -> list[Store]:
        return [self.caches.jobs, *vars(self.caches)["_stores"].values()]

    def _take(self, store: Store, body: Body, *, is_gone: bool) -> None:
        if is_gone:
            store.remove(body)
        elif store.kind == MPI_JOB_V2BETA1 or "mpi-agents/job-uid" in (body["metadata"].get("labels") or {}):
            store.put(body)

    def _wake(self) -> None:
        self.is_due = True
