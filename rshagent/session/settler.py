"""How a session ended whose stream was lost: its worker is asked, again and again while the command runs."""

from __future__ import annotations

from rshagent.session.control import Control
from rshagent.stream.status import AGENT_FAILED

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Timer
    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.execution import Where
    from rshagent.stream.status import Failure

_ASK_FIRST_S, _ASK_LONGEST_S = 0.25, 5.0


class Settler:
    """Finds out how a session ended whose stream was lost: waits for its end, takes the kept exit status.

    `on_settled(code, reason)`: code None where it can't be known; then `reason` says what is known. `on_alive()` is
    called each time that the command is found to run.
    """

    __slots__ = ("_control", "_delay_s", "_engine", "_on_alive", "_on_settled", "_timer", "_watchdog")

    def __init__(
        self,
        engine: Engine,
        where: Where,
        mark: Mark,
        pid: int | None,
        on_settled: Callable[[int | None, str], None],
        on_alive: Callable[[], None] | None = None,
    ) -> None:
        self._engine, self._on_settled, self._on_alive = engine, on_settled, on_alive
        self._delay_s = _ASK_FIRST_S
        self._timer: Timer | None = None
        self._watchdog = engine.loop.call_later(engine.limits["settle"], self._unheard)
        self._control: Control | None = Control(
            engine, where, mark, pid, on_ready=self._ask, on_answer=self._take, on_gone=self._gone
        )

    def close(self) -> None:
        """Stop asking."""
        self._watchdog.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._control is not None:
            self._control.close()
            self._control = None

    def _ask(self) -> None:
        if self._timer is not None:  # a new conversation goes on where the lost one was
            self._timer.cancel()
        if self._control is not None:
            self._control.say("ask")

    def _take(self, answer: str) -> None:
        word, _, number = answer.partition(" ")
        if word == "exit" and number.isdecimal():
            self._settle(min(int(number), AGENT_FAILED), "")  # what does not fit into a code must not become 0
        elif word == "gone":
            self._settle(None, "it ended in the worker, and its exit status was not kept")
        elif word == "alive":
            if self._on_alive is not None:
                self._on_alive()
            self._watchdog.cancel()
            self._watchdog = self._engine.loop.call_later(self._engine.limits["settle"], self._unheard)
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._engine.loop.call_later(self._delay_s, self._ask)
            self._delay_s = min(self._delay_s * 2, _ASK_LONGEST_S)

    def _gone(self, failure: Failure) -> None:
        self._settle(None, failure.message)

    def _unheard(self) -> None:
        settle_s, why = self._engine.limits["settle"], self._control.why if self._control is not None else ""
        self._settle(
            None,
            f"the worker could not be asked for {settle_s:.0f} s{why}",
        )

    def _settle(self, code: int | None, reason: str) -> None:
        self.close()
        self._on_settled(code, reason)
