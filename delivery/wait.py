"""The wait for all workers: Pod states, or lacks, and the time go in, a verdict comes out. Pure.

- Ready: every wanted worker is Ready in the states known now. A worker that was Ready once and no longer is counts as
  lacking again.
- Failed: some worker's lack has outlasted its patience (`lack.Patience`), or the whole wait its time limit.
- Waiting: anything else, with one sentence that groups what the workers lack.

A lack's clock runs while its kind stays the same for the same pod. Being Ready for less than `SETTLED_S` does not stop
it, so a worker that crashes again and again uses up its grace; a pod's replacement starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delivery import durations, exits
from delivery.lack import UNKNOWN, Patience, lack_of
from delivery.sentence import sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delivery.lack import Lack
    from rshagent.pods import Pod

SETTLED_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited, in seconds: for what may heal, for a replacement, and in all (None: without end)."""

    grace_s: float = 600.0
    replacement_s: float = 60.0
    timeout_s: float | None = None

    def of(self, patience: Patience) -> float | None:
        """Return how long a lack of that patience may last; None: without end."""
        return {
            Patience.ENDLESS: None,
            Patience.GRACE: self.grace_s,
            Patience.REPLACEMENT: self.replacement_s,
            Patience.NONE: 0.0,
        }[patience]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`exit_code` None: keep waiting, and judge again after `check_in_s` at the latest (None: only on a change).

    `text` is for people; two verdicts with the same `key` differ in durations and messages only.
    """

    exit_code: int | None
    text: str
    key: tuple[object, ...] = ()
    check_in_s: float | None = None


class _Worker:
    """One wanted worker: what it lacks, and the clock of that lack (or of the last one, while it is Ready)."""

    __slots__ = ("clock", "lack", "mark", "name", "ready_since", "seen", "since")

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.mark = ""
        self.seen = False
        self.lack: Lack | None = UNKNOWN
        self.clock = (UNKNOWN.kind, "")
        self.since = now
        self.ready_since = now

    def take(self, lack: Lack | None, mark: str, now: float) -> None:
        before, self.lack, self.mark = self.lack, lack, mark
        if self.lack is None:
            if before is not None:
                self.ready_since = now
            return
        settled = before is None and now - self.ready_since >= SETTLED_S
        clock = (self.lack.kind, mark)
        if settled or clock != self.clock:
            self.clock, self.since = clock, now


class Wait:
    """Keeps since when each wanted worker lacks what. `now` is in seconds of any one monotonic clock."""

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
    def lacking(self) -> int:
        """How many wanted workers lack something."""
        return len(self._workers) - self._ready

    def follow(self, names: Iterable[str], now: float) -> None:
        """Wait for these workers from now on; of those that were wanted before, all that is known stays."""
        before = self._workers
        self._workers = {name: before.get(name) or _Worker(name, now) for name in names}
        self._ready = sum(worker.lack is None for worker in self._workers.values())

    def update(self, name: str, pod: Pod | None, now: float) -> None:
        """Take the present state of the pod of the worker called `name`; None: there is no such pod."""
        worker = self._workers[name]
        lack = lack_of(pod, was_seen=worker.seen)
        worker.seen = worker.seen or pod is not None
        self.take(name, lack, now, mark=worker.mark if pod is None else pod.uid)

    def take(self, name: str, lack: Lack | None, now: float, *, mark: str) -> None:
        """Take what the worker called `name` lacks now; another `mark` tells that another pod is in its place."""
        worker = self._workers[name]
        was_ready = worker.lack is None
        worker.take(lack, mark, now)
        self._ready += (worker.lack is None) - was_ready

    def judge(self, now: float) -> Verdict:
        """Return what is to be done, and why."""
        total = len(self._workers)
        if self.ready:
            return Verdict(exits.READY, f"{total}/{total} ready after {durations.words(now - self._began)}")
        lacking = [(worker, worker.lack) for worker in self._workers.values() if worker.lack is not None]
        text = sentence(self._ready, total, [(worker.name, lack, now - worker.since) for worker, lack in lacking])
        deadlines = sorted(
            (
                (worker.since + limit_s, position)
                for position, (worker, lack) in enumerate(lacking)
                if (limit_s := self._limits.of(lack.patience)) is not None
            ),
        )
        if deadlines and deadlines[0][0] <= now:
            overdue = [lacking[position] for when, position in deadlines if when <= now]
            return self._given_up(overdue, now)
        timeout_s = self._limits.timeout_s
        if timeout_s is not None and now - self._began >= timeout_s:
            return Verdict(exits.TIMED_OUT, f"gave up after {durations.words(timeout_s)} (--timeout): {text}")
        ends = [when for when, _ in deadlines[:1]] + ([] if timeout_s is None else [self._began + timeout_s])
        key = (self._ready, *((worker.name, lack.kind) for worker, lack in lacking))
        return Verdict(None, text, key, min(ends) - now if ends else None)

    def _given_up(self, overdue: list[tuple[_Worker, Lack]], now: float) -> Verdict:
        """Word the end by the worker that is longest overdue; the others that are overdue too are counted."""
        worker, lack = overdue[0]
        lasted = durations.words(now - worker.since)
        limit = {
            Patience.GRACE: f" for {lasted}, longer than the grace",
            Patience.REPLACEMENT: f" and not replaced within {lasted}",
        }.get(lack.patience, "")
        others = f" (and {len(overdue) - 1} more overdue)" if len(overdue) > 1 else ""
        detail = f": {lack.detail}" if lack.detail else ""
        text = f"{worker.name} {lack.words}{limit}{others}{detail}; {lack.hint}"
        return Verdict(lack.exit_code, text)
