"""The wait for all workers: pod states, or reasons, and the time go in, a verdict comes out. Pure.

- Ready: every wanted worker is Ready in the states known now. A worker that was Ready and no longer is counts as not
  ready again.
- Failed: some worker's reason has lasted longer than is tolerated (`not_ready.Tolerance`), or the whole wait longer
  than its time limit.
- Waiting: anything else, with one line that groups the workers by reason.

A reason's clock runs while its kind stays the same for the same pod. Being Ready for less than `SETTLED_S` does not
stop it, so a worker that keeps crashing uses up its grace; a pod's replacement starts with a new clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agents.common import durations
from agents.common.not_ready import UNKNOWN, NotReady, Tolerance, not_ready, summary
from agents.common.pods import Pod
from delivery import exits

SETTLED_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds: for what may recover, for a replacement, and in all (None: no limit)."""

    grace_s: float = 600.0
    replacement_s: float = 60.0
    timeout_s: float | None = None

    def of(self, tolerance: Tolerance) -> float | None:
        """Return how long a reason of that tolerance may last, in seconds; None: no limit."""
        return {
            Tolerance.UNLIMITED: None,
            Tolerance.GRACE: self.grace_s,
            Tolerance.REPLACEMENT: self.replacement_s,
            Tolerance.NONE: 0.0,
        }[tolerance]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`exit_code` None: keep waiting, and evaluate again after `check_in_s` at the latest (None: only on a change).

    `text` is for people; two verdicts with the same `key` differ in durations and messages only.
    """

    exit_code: int | None
    text: str
    key: tuple[object, ...] = ()
    check_in_s: float | None = None


class _Worker:
    """One wanted worker: why it is not ready, and the clock of that (or of the last reason, while it is Ready)."""

    __slots__ = ("clock", "mark", "name", "ready_since", "reason", "seen", "since")

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.mark = ""
        self.seen = False
        self.reason: NotReady | None = UNKNOWN
        self.clock = (UNKNOWN.kind, "")
        self.since = now
        self.ready_since = now

    def take(self, reason: NotReady | None, mark: str, now: float) -> None:
        before, self.reason, self.mark = self.reason, reason, mark
        if self.reason is None:
            if before is not None:
                self.ready_since = now
            return
        settled = before is None and now - self.ready_since >= SETTLED_S
        clock = (self.reason.kind, mark)
        if settled or clock != self.clock:
            self.clock, self.since = clock, now


class Wait:
    """Keeps since when each wanted worker is not ready, and why. `now` is in seconds of any one monotonic clock."""

    def __init__(self, names: Iterable[str], limits: Limits, now: float) -> None:
        self._workers = {name: _Worker(name, now) for name in names}
        self._limits = limits
        self._began = now
        self._ready = 0

    @property
    def ready(self) -> bool:
        """Whether all wanted workers are Ready at this moment."""
        return self._ready == len(self._workers)

    @property
    def total(self) -> int:
        """How many workers are wanted."""
        return len(self._workers)

    @property
    def waiting(self) -> int:
        """How many wanted workers are not ready."""
        return len(self._workers) - self._ready

    def follow(self, names: Iterable[str], now: float) -> None:
        """Wait for these workers from now on; of those that were wanted before, all that is known stays."""
        before = self._workers
        self._workers = {name: before.get(name) or _Worker(name, now) for name in names}
        self._ready = sum(worker.reason is None for worker in self._workers.values())

    def update(self, name: str, pod: Pod | None, now: float) -> None:
        """Take the present state of the pod of the worker called `name`; None: there is no such pod."""
        worker = self._workers[name]
        reason = not_ready(pod, was_seen=worker.seen)
        worker.seen = worker.seen or pod is not None
        self.take(name, reason, now, mark=worker.mark if pod is None else pod.uid)

    def take(self, name: str, reason: NotReady | None, now: float, *, mark: str) -> None:
        """Take why the worker called `name` is not ready now; another `mark` means another pod in its place."""
        worker = self._workers[name]
        was_ready = worker.reason is None
        worker.take(reason, mark, now)
        self._ready += (worker.reason is None) - was_ready

    def evaluate(self, now: float) -> Verdict:
        """Return whether the wait continues or ends, and why."""
        total = len(self._workers)
        if self.ready:
            return Verdict(exits.READY, f"{total}/{total} ready after {durations.words(now - self._began)}")
        waiting = [(worker, worker.reason) for worker in self._workers.values() if worker.reason is not None]
        text = summary(self._ready, total, [(worker.name, reason, now - worker.since) for worker, reason in waiting])
        deadlines = sorted(
            (
                (worker.since + limit_s, position)
                for position, (worker, reason) in enumerate(waiting)
                if (limit_s := self._limits.of(reason.tolerance)) is not None
            ),
        )
        if deadlines and deadlines[0][0] <= now:
            overdue = [waiting[position] for when, position in deadlines if when <= now]
            return self._given_up(overdue, now)
        timeout_s = self._limits.timeout_s
        if timeout_s is not None and now - self._began >= timeout_s:
            return Verdict(exits.TIMED_OUT, f"gave up after {durations.words(timeout_s)} (--timeout): {text}")
        ends = [when for when, _ in deadlines[:1]] + ([] if timeout_s is None else [self._began + timeout_s])
        key = (self._ready, *((worker.name, reason.kind) for worker, reason in waiting))
        return Verdict(None, text, key, min(ends) - now if ends else None)

    def _given_up(self, overdue: list[tuple[_Worker, NotReady]], now: float) -> Verdict:
        """Describe the end by the worker that is overdue for the longest time; count the others."""
        worker, reason = overdue[0]
        lasted = durations.words(now - worker.since)
        limit = {
            Tolerance.GRACE: f" for {lasted}, longer than the grace",
            Tolerance.REPLACEMENT: f" and not replaced within {lasted}",
        }.get(reason.tolerance, "")
        others = f" (and {len(overdue) - 1} more overdue)" if len(overdue) > 1 else ""
        detail = f": {reason.detail}" if reason.detail else ""
        text = f"{worker.name} {reason.message}{limit}{others}{detail}; {reason.hint}"
        return Verdict(exits.of_reason(reason), text)
