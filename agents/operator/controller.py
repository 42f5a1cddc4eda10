"""The loop around `plan`: reads a job that may have changed, has it planned, carries out the plan. Decides nothing."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from agents.job.read import read
from agents.operator.executor import Memory, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agents.job.model import Job, Problem
    from agents.operator.actions import Action, Plan
    from agents.operator.caches import Caches, Key
    from agents.operator.errors import ApiError
    from agents.operator.executor import Executor
    from agents.operator.metrics import Metrics
    from agents.operator.observed import Observed
    from agents.operator.queue import Queue
    from agents.operator.settings import PodSettings

    Planner = Callable[[Job | tuple[Problem, ...], Observed, PodSettings, float], Plan]

Body = dict[str, Any]

_LOG = logging.getLogger(__name__)
_ROUNDS_MAX = 50  # plans in a row that have something to do; more are a fault, and wait as one
_BATCH = 16  # actions of a step between two looks at whether we may go on
_TAKEN_KEPT_S = 60.0  # how long until a name that someone else has taken is tried again


class Controller:
    """Workers that plan jobs. `takes(resource)`: whether a job is ours to look after; `may_act()`: whether we lead."""

    def __init__(
        self,
        plan: Planner,
        caches: Caches,
        queue: Queue[Key],
        executor: Executor,
        settings: PodSettings,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan, self._settings, self._metrics, self._clock = plan, settings, metrics, clock
        self._caches, self._queue, self._executor = caches, queue, executor
        self._memories: dict[Key, Memory] = {}
        self._threads: list[threading.Thread] = []
        self.takes: Callable[[Body], bool] = lambda _resource: True
        self.may_act: Callable[[], bool] = lambda: True

    def start(self, workers: int) -> None:
        """Begin to plan."""
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Let the steps that have begun end, and begin no other; return whether all did in time."""
        self._queue.close()
        end = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def is_alive(self) -> bool:
        """Whether all workers run."""
        return all(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            began = time.monotonic()
            try:
                self.reconcile(key)
            except Exception:  # noqa: BLE001 (a fault of ours must not hold up the other jobs)
                self._metrics.reconcile_errors.add("exception")
                _LOG.exception("job %s can't be planned", key, extra=_about(key))
                self._queue.retry(key)
            finally:
                self._queue.done(key)
                self._metrics.reconcile_s.observe(time.monotonic() - began)

    def reconcile(self, key: Key) -> None:
        """Plan one job and carry the plan out."""
        jobs = self._caches.jobs(key.group)
        resource = jobs.get(key.namespace, key.name)
        if resource is None:
            self._memories.pop(key, None)
            self._queue.forget(key)
            return
        if not self.takes(resource):
            return
        memory, now = self._memory(key, resource), self._clock()
        observed = self._caches.observe(resource, self._taken(memory, key, now), memory.refused)
        served = jobs.kind.api_version.rpartition("/")[2]
        planned = self._plan(read(resource, served=served), observed, self._settings, now)
        for actions in _batches(planned):
            if not self.may_act():
                self._queue.retry(key)  # the lease may yet be renewed
                return
            for action in actions:
                _LOG.info("job %s: %s (%s)", key, named(action), action.reason, extra=_about(key))
            failures = self._executor.carry_out(resource, memory, actions, now)
            if failures:
                self._failed(key, failures)
                return
        if planned.again_at is not None:
            self._queue.add_after(key, planned.again_at - now)
        self._succeeded(key, memory, acted=bool(planned.steps))

    def _memory(self, key: Key, resource: Body) -> Memory:
        metadata = resource["metadata"]
        memory = self._memories.get(key)
        if memory is None or memory.uid != metadata["uid"]:
            memory = self._memories[key] = Memory(metadata["uid"])
        # Settings are annotations, too, by which the generation does not change.
        edition = (metadata.get("generation", 0), metadata.get("annotations") or {})
        if memory.edition != edition:
            memory.edition = edition
            memory.refused, memory.taken = {}, {}
        return memory

    def _taken(self, memory: Memory, key: Key, now: float) -> frozenset[tuple[str, str]]:
        """The names that others have: nobody tells when they are given up, so they are tried again in a while."""
        memory.taken = {wanted: at for wanted, at in memory.taken.items() if now - at < _TAKEN_KEPT_S}
        if memory.taken:
            self._queue.add_after(key, min(memory.taken.values()) + _TAKEN_KEPT_S - now)
        return frozenset(memory.taken)

    def _failed(self, key: Key, failures: list[ApiError]) -> None:
        for error in failures:
            self._metrics.reconcile_errors.add(type(error).__name__.removesuffix("Error"))
        # Later each time all the same: an overloaded server says 1 s to each of thousands of jobs, and some proxies 0.
        self._queue.retry(key, max(error.retry_after_s or 0.0 for error in failures))

    def _succeeded(self, key: Key, memory: Memory, *, acted: bool) -> None:
        memory.rounds = memory.rounds + 1 if acted else 0
        if memory.rounds <= _ROUNDS_MAX:
            self._queue.forget(key)
            if acted:
                self._queue.add(key)
            return
        _LOG.warning("job %s does not settle: %d plans in a row", key, memory.rounds, extra=_about(key))
        self._metrics.reconcile_errors.add("unsettled")
        self._queue.retry(key)


def _batches(planned: Plan) -> Iterator[Sequence[Action]]:
    """The plan's steps; a large one in parts, so that it leaves room for other jobs', and ends soon if it has to."""
    for step in planned.steps:
        for begin in range(0, len(step), _BATCH):
            yield step[begin : begin + _BATCH]


def _about(key: Key) -> dict[str, str]:
    return {"job": str(key)}
