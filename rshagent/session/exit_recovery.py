"""Exit recovery: how the command of a lost stream ends. Its worker is asked again and again while the command runs.

While the API server itself can't be reached nothing is known to be wrong with the worker: each failure to
reach it restarts the worker's time without an answer (`settle`), for at most `outage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.session.control import Control
from rshagent.session.events import ExitRecovered, On
from rshagent.stream.status import AGENT_FAILED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.events import Event
    from rshagent.session.target import ExecTarget
    from rshagent.stream.status import Failure


class ExitRecovery(Control):
    """Waits for the end of a session's command, and takes the exit status that its bootstrap stored.

    `feed` gets Alive each time that the command is found to run, and ExitRecovered once.
    """

    __slots__ = ("_feed", "_heard_at", "_is_outage", "_mark")

    first_pause_s, longest_pause_s = 0.25, 5.0

    def __init__(
        self, engine: Engine, target: ExecTarget, mark: Mark, pid: int | None, feed: Callable[[Event], None]
    ) -> None:
        super().__init__(engine, target, mark, pid)
        self._mark, self._feed = mark, feed
        self._heard_at, self._is_outage = engine.loop.now(), False
        self._watch()

    def _ready(self) -> None:
        self._say("ask")

    def _answered(self, answer: str) -> None:
        word, _, number = answer.partition(" ")
        if word == "exit" and number.isdecimal():
            self._end(min(int(number), AGENT_FAILED), "")  # what does not fit into a code must not become 0
        elif word == "gone":
            self._end(None, "it ended in the worker, and its exit status was not kept")
        elif word == "alive":
            self._heard_at = self._engine.loop.now()
            self._watch()
            self._after_pause(self._ready)
            if self._is_outage:
                self._is_outage = False
                self._engine.on_outage(self._mark, "the API server can be reached again: the command runs")
            self._feed(On.ALIVE)

    def _gone(self, failure: Failure) -> None:
        self._end(None, failure.message)

    def _is_worth_it(self, failure: Failure) -> bool:
        """Allow another try after any failure; an outage restarts the worker's time, until it has lasted too long."""
        engine, outage_s = self._engine, self._engine.limits["outage"]
        if failure.is_outage and engine.loop.now() < self._heard_at + outage_s:
            self._watch()
            if not self._is_outage:
                waits = f"its exit is asked for until the API server answers, for at most {outage_s:.0f} s"
                engine.on_outage(self._mark, f"{failure.message}; {waits}")
            self._is_outage = True
        return True

    def _watch(self) -> None:
        self._give_up_after(self._engine.limits["settle"], self._unheard)

    def _unheard(self) -> None:
        unheard_s = self._engine.loop.now() - self._heard_at
        self._end(None, f"the worker could not be asked for {unheard_s:.0f} s{self.why}")

    def _end(self, code: int | None, reason: str) -> None:
        self.close()
        self._feed(ExitRecovered(code, reason))
