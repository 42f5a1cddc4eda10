"""The loop around `plan`: reads a job that may have changed, plans it, and has the plan executed. Decides nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agents.job.json_object import Body
from agents.job.model import Job, Problem
from agents.job.read import read
from agents.kube.errors import ApiError, NotFoundError
from agents.operator.actions import Action, Plan
from agents.operator.caches import Caches, Key
from agents.operator.executor import Executor, Memory, named
from agents.operator.metrics import Metrics
from agents.operator.planning.view import Observed
from agents.operator.queue import Queue
from agents.operator.settings import PodSettings
from agents.operator.trim import Outline

Planner = Callable[[Job | tuple[Problem, ...], Observed, PodSettings, float], Plan]

_LOG = logging.getLogger(__name__)
_ROUNDS_MAX = 50  # consecutive plans with actions; more is treated as a failure, with backoff
_BATCH = 16  # actions of a step between two checks of `may_act`
_NAME_CONFLICT_RETRY_S = 60.0  # how long until a conflicting name is tried again


@dataclass(frozen=True, slots=True)
class Scope:
    """Which jobs are planned, what is done about the others, and whether the operator may act now."""

    claims: Callable[[Body], bool] = lambda _resource: True
    plan_unclaimed: Callable[[Job | tuple[Problem, ...], Body, float], Plan] = lambda _job, _resource, _now: Plan()
    may_act: Callable[[], bool] = lambda: True


class Controller:
    """Workers that plan jobs, and have the plans carried out."""

    def __init__(
        self,
        plan: Planner,
        caches: Caches,
        queue: Queue[Key],
        executor: Executor,
        settings: PodSettings,
        metrics: Metrics,
        scope: Scope | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan, self._settings, self._metrics, self._clock = plan, settings, metrics, clock
        self._caches, self._queue, self._executor, self._scope = caches, queue, executor, scope or Scope()
        self._memories: dict[Key, Memory] = {}
        self._threads: list[threading.Thread] = []

    def start(self, workers: int) -> None:
        """Begin to plan."""
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Let running steps finish and start no others; return whether all finished in time."""
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
            except Exception:  # noqa: BLE001 (a bug must not block other jobs)
                self._metrics.reconcile_errors.labels("exception").inc()
                _LOG.exception("job %s can't be planned", key, extra=_about(key))
                self._queue.retry(key)
            finally:
                self._queue.done(key)
                self._metrics.reconcile_s.observe(time.monotonic() - began)

    def reconcile(self, key: Key) -> None:
        """Plan one job and execute the plan."""
        jobs = self._caches.jobs(key.group)
        resource = jobs.get(key.namespace, key.name)
        if resource is None:
            self._memories.pop(key, None)
            self._queue.forget(key)
            return
        now = self._clock()
        memory = self._memory(key, resource, now)
        served = jobs.kind.api_version.rpartition("/")[2]
        # A job whose pods we made stays ours, even if its status is not written yet.
        if memory.pods or self._scope.claims(resource):
            whole = self._whole(key, resource) if memory.is_large else resource
            if whole is None:
                return
            resource = whole
            observed = self._caches.observe(
                resource, self._name_conflicts(memory, key, now), memory.rejected, memory.seen_at
            )
            memory.rejected = dict(observed.rejected)
            if len(observed.pods) > memory.pods:  # a job of many workers is made by many plans
                memory.pods, memory.rounds = len(observed.pods), 0
            planned = self._plan(read(resource, served=served), observed, self._settings, now)
        else:
            planned = self._scope.plan_unclaimed(read(resource, served=served), resource, now)
        for actions in _batches(planned):
            if not self._scope.may_act():
                self._queue.retry(key)  # the lease may yet be renewed
                return
            for action in actions:
                _LOG.info("job %s: %s (%s)", key, named(action), action.reason, extra=_about(key))
            failures = self._executor.carry_out(resource, memory, actions, now)
            if failures:
                self._failed(key, failures)
                return
        if planned.requeue_at is not None:
            self._queue.add_after(key, planned.requeue_at - now)
        self._succeeded(key, memory, acted=bool(planned.steps))

    def _whole(self, key: Key, outline: Body) -> Body | None:
        """Return a large job as it is now; None if it can't be read, or is not the version that the watch reported.

        A plan rests on the version that the caches have: its status writes conflict where these lag.
        """
        try:
            whole = self._executor.whole(outline)
        except NotFoundError:
            return None  # the watch will say so
        except ApiError as error:
            _LOG.warning("job %s can't be read: %s", key, error, extra=_about(key))
            self._failed(key, [error])
            return None
        if whole["metadata"]["uid"] != outline["metadata"]["uid"]:
            return None
        if whole["metadata"]["resourceVersion"] != outline["metadata"]["resourceVersion"]:
            self._queue.retry(key)
            return None
        return whole

    def _memory(self, key: Key, resource: Body, now: float) -> Memory:
        metadata = resource["metadata"]
        memory = self._memories.get(key)
        if memory is None or memory.uid != metadata["uid"]:
            memory = self._memories[key] = Memory(metadata["uid"], now)
        memory.is_large = isinstance(resource, Outline)
        # Settings are annotations, too, by which the generation does not change.
        edition = (metadata.get("generation", 0), metadata.get("annotations") or {})
        if memory.edition != edition:
            memory.edition = edition
            memory.rejected, memory.name_conflicts = {}, {}
        return memory

    def _name_conflicts(self, memory: Memory, key: Key, now: float) -> frozenset[tuple[str, str]]:
        """Return conflicting names. Nothing reports when they become free, so they are tried again after a while."""
        memory.name_conflicts = {
            wanted: at for wanted, at in memory.name_conflicts.items() if now - at < _NAME_CONFLICT_RETRY_S
        }
        if memory.name_conflicts:
            self._queue.add_after(key, min(memory.name_conflicts.values()) + _NAME_CONFLICT_RETRY_S - now)
        return frozenset(memory.name_conflicts)

    def _failed(self, key: Key, failures: list[ApiError]) -> None:
        for error in failures:
            self._metrics.reconcile_errors.labels(type(error).__name__.removesuffix("Error")).inc()
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
        self._metrics.reconcile_errors.labels("unsettled").inc()
        self._queue.retry(key)


def _batches(planned: Plan) -> Iterator[Sequence[Action]]:
    """The plan's steps; a large one in parts, so that it leaves room for other jobs', and ends soon if it has to."""
    for step in planned.steps:
        for begin in range(0, len(step), _BATCH):
            yield step[begin : begin + _BATCH]


def _about(key: Key) -> dict[str, str]:
    return {"job": str(key)}
