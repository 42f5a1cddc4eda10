"""Signals to a session's processes in the worker: all of them are ended (Reaper), or sent one signal (SignalSender)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.session.control import Control
from rshagent.session.decisions import ENDING, KILL

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.target import ExecTarget
    from rshagent.stream.status import Failure

KILL_AFTER_S = 5.0


class Reaper(Control):
    """Ends all processes that carry a session's mark: first `signal_name`, KILL after 5 s if nothing else is said.

    `on_done(reason)`: reason "" where none is left, else what is known of those that are. A refusal is believed after
    a while (`Failure.patience_s`) where it `believes_refusals`, else it is tried on as long as any other trouble.
    """

    __slots__ = ("_believes_refusals", "_kill_after_s", "_kill_at", "_on_done", "_refused_at", "_signal")

    def __init__(
        self,
        engine: Engine,
        target: ExecTarget,
        mark: Mark,
        signal_name: str,
        on_done: Callable[[str], None],
        kill_after_s: float = KILL_AFTER_S,
        *,
        believes_refusals: bool = False,
    ) -> None:
        super().__init__(engine, target, mark)
        self._signal, self._on_done = signal_name, on_done
        self._kill_after_s, self._believes_refusals = kill_after_s, believes_refusals
        self._refused_at: float | None = None
        self._kill_at: float | None = None
        self._give_up_after(engine.limits["reap"], self._too_late)

    @property
    def sent(self) -> tuple[int, ...]:
        """The signals by which the processes may have ended that were sent from here."""
        return (*ENDING, KILL) if self._signal == "KILL" else (*ENDING,)

    def _ready(self) -> None:
        if self._kill_at is None:
            self._kill_at = self._engine.loop.now() + self._kill_after_s
        self._say(f"signal {self._signal}")

    def _answered(self, answer: str) -> None:
        if answer == "left 0 0":
            self._finish("")
        elif answer.startswith("left "):
            self._after_pause(self._look_again)

    def _look_again(self) -> None:
        assert self._kill_at is not None
        if self._engine.loop.now() >= self._kill_at:
            # Again and again: what is forked while the script looks is not found before the next look.
            self._signal = "KILL"
            self._say("signal KILL")
        else:
            self._say("count")

    def _is_worth_it(self, failure: Failure) -> bool:
        if _is_absent(failure):
            return False
        if not self._believes_refusals or failure.patience_s is None:
            self._refused_at = None
            return True
        now = self._engine.loop.now()
        self._refused_at = now if self._refused_at is None else self._refused_at
        return now < self._refused_at + failure.patience_s

    def _gone(self, failure: Failure) -> None:
        self._finish("" if _is_absent(failure) else f"its processes could not be ended: {failure.message}")

    def _too_late(self) -> None:
        reap_s = self._engine.limits["reap"]
        self._finish(f"its processes could not all be ended within {reap_s:.0f} s{self.why}")

    def _finish(self, reason: str) -> None:
        self.close()
        self._on_done(reason)


def _is_absent(failure: Failure) -> bool:
    """Say whether the pod, or the container, is not there: no process is, then, and what comes next has none of ours.

    The kubelet looks for a container among those that run.
    """
    return failure.http_status == 404 or "container not found" in failure.message


class SignalSender(Control):
    """Sends one signal to a session's processes, then closes. Waits up to 5 s for a command that has not started."""

    __slots__ = ("_gives_up_at", "_repeats", "name")

    def __init__(self, engine: Engine, target: ExecTarget, mark: Mark, signal_name: str) -> None:
        super().__init__(engine, target, mark)
        self.name, self._repeats = signal_name, False
        self._gives_up_at: float | None = None

    def repeat(self) -> None:
        """Pass it on once more, unless it has not been sent yet."""
        self._repeats = True

    def _ready(self) -> None:
        self._repeats = False
        self._say(f"signal {self.name}")

    def _answered(self, answer: str) -> None:
        now = self._engine.loop.now()
        self._gives_up_at = now + KILL_AFTER_S if self._gives_up_at is None else self._gives_up_at
        is_alone = answer.endswith(" 0") and answer != "left 0 0"  # its bootstrap, of one that hides its mark for ever
        if is_alone and now < self._gives_up_at:
            self._after_pause(self._ready)
        elif self._repeats:
            self._ready()
        else:
            self.close()

    def _gone(self, _failure: Failure) -> None:
        self.close()
