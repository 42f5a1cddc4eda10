"""What the hub terminates in the workers: the launcher's processes at its end, and what earlier instances left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.call import surroundings
from rshagent.call.bootstrap import Marks
from rshagent.hub.ending import LONGEST_S, Cleanup, kill_after
from rshagent.session.engine import SPARED_MAX
from rshagent.session.machine import NOT_REQUESTED, WITH_COMMAND
from rshagent.session.target import ExecTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from rshagent.hub.workers import Workers
    from rshagent.session.engine import Engine
    from rshagent.session.session import Session

_CLIENTS_BACK_S = 10.0  # so long a client tries to find the next hub (client.c)
_LAST_STATUS_S = 2.5  # for streams to bring their status, and for a session's second look at a recent request
_SIGTERM, _SIGKILL = 15, 9


class Shutdown:
    """Knows where processes of the launcher may be, and ends them."""

    def __init__(
        self,
        engine: Engine,
        sessions: Set[Session],
        workers: Workers,
        log: Callable[[str], None],
        *,
        pod: str,
        container: str,
        is_successor: bool,
    ) -> None:
        """`pod`: the launcher's; `container`: the only one to exec into, or ""; `is_successor`: an earlier hub died."""
        self._engine, self._sessions, self._workers, self._log = engine, sessions, workers, log
        self._pod, self._container, self._is_successor = pod, container, is_successor
        self._started: dict[str, ExecTarget] = {}  # where sessions have run; daemons of theirs may be there still
        self._cleanup: Cleanup | None = None
        self._is_clean = False
        self.has_begun = False
        if is_successor:  # clients of the earlier hub may be about to come back
            engine.cleans_from = engine.loop.now() + _CLIENTS_BACK_S
            engine.loop.call_later(_CLIENTS_BACK_S, self._make_up)

    def note(self, target: ExecTarget) -> None:
        """Remember that something was started there."""
        self._started.setdefault(_key(target), target)

    def begin(self, left_s: float | None) -> None:
        """End all sessions, and what is left in workers, then stop the loop; `left_s` is all the time there is."""
        self.has_begun = True
        longest_s = min(left_s or LONGEST_S, LONGEST_S)
        targets = self._targets()
        self._log(f"ending {len(self._sessions)} sessions, and remaining processes in {len(targets)} workers")
        cleaned = {_key(target) for target in targets}
        # Those that wait first: a start slot that becomes free would be theirs.
        for session in sorted(self._sessions, key=lambda one: one.facts.state not in NOT_REQUESTED):
            session.facts.ours = (*session.facts.ours, _SIGTERM)
            # Those that have a stream end by it when their processes do, which one exec per worker sees to.
            is_left_to_it = session.facts.state in WITH_COMMAND and _key(session.target) in cleaned
            session.end(_SIGTERM, longest_s if is_left_to_it else 0)
        engine, kill_s = self._engine, kill_after(left_s)
        of_pod = surroundings.instance_of(engine.launcher, self._pod, "")
        engine.loop.call_later(kill_s, self._killed)
        self._cleanup = Cleanup(
            engine, targets, lambda target: Marks(engine.launcher, target.pod, of_pod), kill_s,
            may_hold=self._may_hold, on_left=self._left, on_done=self._cleaned,
        )  # fmt: skip
        self._cleanup.start()
        engine.loop.call_later(longest_s, self._time_is_over)

    def pods_changed(self) -> None:
        """Leave the workers alone that hold nothing any more."""
        if self._cleanup is not None:
            self._cleanup.look_again()

    def stop_if_done(self) -> None:
        """Stop the loop if nothing is left to end."""
        if self._is_clean and not self._sessions:
            # The exit codes that were just sent are in the kernel already; a client that is slow to read keeps them.
            self._engine.loop.call_later(0, self._engine.loop.stop)

    def _targets(self) -> list[ExecTarget]:
        """Return where processes of ours may be, of the containers in which something was started."""
        for session in self._sessions:
            self.note(session.target)
        if self._is_successor:
            pods = self._engine.pods or {}
            for worker in self._workers.all(self._engine.pods):
                container = self._container or (pods[worker.pod].main_container if worker.pod in pods else None)
                self.note(ExecTarget(worker.namespace, worker.pod, container or None))
        return [target for target in self._started.values() if self._may_hold(target)]

    def _may_hold(self, target: ExecTarget) -> bool:
        """Say whether a container runs, and will: in a pod that is being deleted the kubelet ends all."""
        pods = self._engine.watched(target.namespace)
        if pods is None:
            return True
        pod = pods.get(target.pod)
        if pod is None or pod.deleting or pod.phase != "Running":
            return False
        state = pod.container(target.container)
        return state is None or state.state == "running"

    def _make_up(self) -> None:
        """Make up for what sessions had to leave: an earlier hub's clients are back, or gone."""
        engine = self._engine
        deferred, engine.deferred = engine.deferred, {}
        if self.has_begun or not deferred or len(engine.living) > SPARED_MAX:
            return

        def marks_of(target: ExecTarget) -> Marks:
            spared = (*deferred[target.pod][1], *engine.spared(()))
            engine.note_cleanup(self, target.pod, spared)
            return Marks(engine.launcher, target.pod, spared=spared)

        def done() -> None:
            for pod in deferred:
                engine.end_cleanup(self, pod)

        targets = [target for target, _ in deferred.values()]
        Cleanup(engine, targets, marks_of, 0.0, may_hold=self._may_hold, on_left=self._left, on_done=done).start()

    def _left(self, target: ExecTarget, reason: str) -> None:
        self._log(f"host={target.pod} left={quoted(reason)}")

    def _killed(self) -> None:
        for session in self._sessions:
            session.facts.ours = (*session.facts.ours, _SIGKILL)

    def _cleaned(self) -> None:
        self._is_clean = True
        self._engine.loop.call_later(_LAST_STATUS_S, self._leave)
        self.stop_if_done()

    def _time_is_over(self) -> None:
        if self._cleanup is not None:
            self._cleanup.give_up()
        self._leave()

    def _leave(self) -> None:
        for session in list(self._sessions):
            session.leave()
        self._engine.loop.stop()


def quoted(text: str) -> str:
    """Return a value of a log line in quotes, which it can't end."""
    return '"' + text.replace('"', "'") + '"'


def _key(target: ExecTarget) -> str:
    return f"{target.namespace}/{target.pod}/{target.container}"
