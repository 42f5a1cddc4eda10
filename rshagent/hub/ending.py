"""How the hub ends with its pod: when it has to begin, and what it ends in the workers.

When a pod is deleted, the kubelet runs the preStop hooks of all its containers in parallel, then sends SIGTERM to the
main containers. A native sidecar such as the hub gets SIGTERM only when those have exited, or when the grace period is
over and 2 s are left. So its hook announces the deletion (`rshagent-hub --ending`). If the main container does not
exit, the hub starts its cleanup `SWEEP_S` before the end of the grace period. The hooks also run, followed immediately
by SIGTERM, when the main containers have exited by themselves.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from agents.common.loop import NO_TIMER
from rshagent.native.protocol import GRACE_MAX_S
from rshagent.net.requests import get
from rshagent.session.reaper import KILL_AFTER_S, Reaper
from rshagent.stream.streams import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agents.common.loop import Loop
    from rshagent.call.bootstrap import Marks
    from rshagent.net.cluster import Cluster
    from rshagent.net.connection import Lost
    from rshagent.net.http import Head
    from rshagent.session.engine import Engine
    from rshagent.session.target import ExecTarget

SWEEP_S = 8.0  # TERM, KILL 5 s later, and time for both to get there
LAST_S = 2.0  # what the kubelet leaves to a container when the grace period is over
LONGEST_S = 25.0  # for workers that run and can't be reached; a pod's default grace period is 30
_KILL_AFTER_SHORTEST_S = 1.0


class Deadline:
    """When the pod's grace period is over, as far as that is known; `on_near()` when it is time to end the job."""

    def __init__(self, loop: Loop, on_near: Callable[[], None]) -> None:
        self._loop, self._on_near = loop, on_near
        self._at: float | None = None
        self._timer = NO_TIMER

    def left_s(self) -> float | None:
        """Return how long the hub has; None if no end was announced. It always has the kubelet's last seconds."""
        return None if self._at is None else max(self._at - self._loop.now(), LAST_S)

    def set(self, seconds: float) -> None:
        """Take it that the grace period is over in so many seconds."""
        seconds = min(seconds, GRACE_MAX_S)
        self._at = self._loop.now() + seconds
        self._timer.cancel()
        self._timer = self._loop.call_later(max(seconds - SWEEP_S, 0.0), self._on_near)

    def ask(self, cluster: Cluster, pod: str) -> None:
        """Ask the API server; whoever may not read its own pod keeps what was set."""
        path = f"/api/v1/namespaces/{quote(cluster.namespace.encode())}/pods/{quote(pod.encode())}"
        get(self._loop, cluster, path, self._answered)

    def _answered(self, head: Head | None, body: bytes, lost: Lost | None) -> None:
        if lost is None and head is not None and head.status == 200:
            left_s = grace_left(body, time.time())
            if left_s is not None:
                self.set(left_s)


def grace_left(pod: bytes, now: float) -> float | None:
    """Return the seconds until a pod's deadline; None if it is not being deleted, or its object can't be read.

    Where this clock and the API server's differ, the shorter of the two is right: the hooks run at the beginning.
    """
    try:
        metadata = json.loads(pod)["metadata"]
        grace_s = float(metadata["deletionGracePeriodSeconds"])
        return max(min(datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp() - now, grace_s), 0.0)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def kill_after(left_s: float | None) -> float:
    """Return how long after TERM KILL comes: as in any session, if there is time for it."""
    if left_s is None:
        return _KILL_AFTER_SHORTEST_S
    return min(max(left_s - (SWEEP_S - KILL_AFTER_S), _KILL_AFTER_SHORTEST_S), KILL_AFTER_S)


class Cleanup:
    """Ends all processes with this launcher's tags in some workers; the start limiter holds for it too.

    `marks_of(target)` says which tags: only this pod's own, if a batch Job's next pod may have started its job already.
    `may_hold(target)` says whether there can be anything of ours that nobody else ends; whoever changes what it says
    calls `look_again`. Where a job is deleted its workers go, and the rights to exec into them before: refusals are
    believed after seconds.

    `on_left(target, reason)` tells of a worker in which something may be left, `on_done()` of the end.
    """

    def __init__(
        self,
        engine: Engine,
        places: Iterable[ExecTarget],
        marks_of: Callable[[ExecTarget], Marks],
        kill_after_s: float,
        *,
        may_hold: Callable[[ExecTarget], bool],
        on_left: Callable[[ExecTarget, str], None],
        on_done: Callable[[], None],
    ) -> None:
        self._engine, self._marks_of, self._kill_after_s = engine, marks_of, kill_after_s
        self._may_hold, self._on_left, self._on_done = may_hold, on_left, on_done
        self._reapers: dict[ExecTarget, Reaper | None] = dict.fromkeys(places)  # None: its turn has not come

    def start(self) -> None:
        """Begin."""
        if not self._reapers:
            self._on_done()
        for target in list(self._reapers):
            self._engine.limiter.enter((self, target), partial(self._reap, target))

    def look_again(self) -> None:
        """Leave the workers alone that hold nothing any more."""
        for target in list(self._reapers):
            if not self._may_hold(target):
                self._ended(target, "")

    def give_up(self) -> None:
        """Stop, and tell of the workers in which something may be left."""
        for target, reaper in list(self._reapers.items()):
            self._ended(target, f"its processes could not all be ended in time{reaper.why if reaper else ''}")

    def _reap(self, target: ExecTarget) -> None:
        marks, ended = self._marks_of(target), partial(self._ended, target)
        self._reapers[target] = Reaper(
            self._engine, target, marks, "TERM", ended, self._kill_after_s, believes_refusals=True
        )

    def _ended(self, target: ExecTarget, reason: str) -> None:
        reaper = self._reapers.pop(target)
        if reaper is not None:
            reaper.close()
        self._engine.limiter.leave((self, target))
        if reason:
            self._on_left(target, reason)
        if not self._reapers:
            self._on_done()
