"""A second exec into a worker, which asks after a session (`settler`) or signals its processes.

The script at its other end (`bootstrap.control`) has nothing but a shell, so it can't wait: it answers one line for
each line that it is sent, and the pace is kept here.
"""

from __future__ import annotations

from rshagent import bootstrap
from rshagent.execution import Execution, Listener
from rshagent.retry import Backoff
from rshagent.status import Failure
from rshagent.streams import STDOUT, Opened, Output

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.bootstrap import Mark
    from rshagent.engine import Engine
    from rshagent.execution import Where
    from rshagent.loop import Timer
    from rshagent.status import Exited
    from rshagent.streams import Event

KILL_AFTER_S = 5.0
_COUNT_FIRST_S, _COUNT_LONGEST_S = 0.05, 0.5
_ANSWER_S = 10.0


class Control(Listener):
    """A line of conversation with the control script; comes back by itself when its stream is lost.

    `on_ready()` is called whenever the script can be spoken to, `on_answer(line)` for each answer, and
    `on_gone(failure)` at the end, when there is no such pod any more or we are refused for good.
    """

    __slots__ = (
        "_answers",
        "_backoff",
        "_command",
        "_engine",
        "_execution",
        "_on_answer",
        "_on_gone",
        "_on_ready",
        "_timer",
        "_trouble",
        "_where",
    )

    def __init__(
        self,
        engine: Engine,
        where: Where,
        mark: Mark,
        pid: int | None,
        *,
        on_ready: Callable[[], None],
        on_answer: Callable[[str], None],
        on_gone: Callable[[Failure], None],
    ) -> None:
        self._engine, self._where = engine, where
        self._command = bootstrap.control(mark, pid)
        self._on_ready, self._on_answer, self._on_gone = on_ready, on_answer, on_gone
        self._answers = b""
        self._trouble = ""
        self._backoff = Backoff()
        self._execution: Execution | None = None
        self._timer: Timer | None = None
        self._connect()

    @property
    def why(self) -> str:
        """Say, to be added to a line, what has gone wrong since the last answer."""
        return f": {self._trouble}" if self._trouble else ""

    def say(self, line: str) -> None:
        """Send one line; the answer comes to `on_answer`, or `on_ready` is called again instead."""
        if self._execution is not None:
            self._execution.send(line.encode() + b"\n")
            self._expect()

    def close(self) -> None:
        """End the conversation."""
        if self._execution is not None:
            self._execution.send(b"end\n")
            self._execution.close()
            self._execution = None
        self._cancel()

    def exec_event(self, event: Event) -> None:
        """Take answers apart into lines."""
        if isinstance(event, Opened):
            self._cancel()
            self._on_ready()
        elif isinstance(event, Output) and event.channel == STDOUT:
            self._answers += bytes(event.data)
            while (end := self._answers.find(b"\n")) >= 0 and self._execution is not None:
                line, self._answers = self._answers[:end], self._answers[end + 1 :]
                self._cancel()
                self._backoff, self._trouble = Backoff(), ""
                self._on_answer(line.decode("ascii", "replace").strip())

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Come back, unless there is nothing to come back to."""
        self._cancel()
        self._execution = None
        if isinstance(outcome, Failure) and (outcome.http_status == 404 or not outcome.retryable):
            self._on_gone(outcome)
            return
        self._trouble = outcome.message if isinstance(outcome, Failure) else reason
        wished_s = outcome.retry_after_s if isinstance(outcome, Failure) else None
        self._timer = self._engine.loop.call_later(self._backoff.delay_s(wished_s), self._connect)

    def _connect(self) -> None:
        self._answers = b""
        self._execution = Execution(self._engine, self._where, self._command, self, stdin=True, acknowledgement=None)
        self._expect()

    def _expect(self) -> None:
        self._cancel()
        self._timer = self._engine.loop.call_later(_ANSWER_S, self._unanswered)

    def _unanswered(self) -> None:
        if self._execution is not None:
            self._execution.close()
        self.exec_ended(None, "no answer")

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Reaper:
    """Ends all processes that carry a session's mark: first `signal_name`, KILL after 5 s if nothing else is said.

    `on_done(reason)`: reason "" where none is left, else what is known of those that are.
    """

    __slots__ = (
        "_control", "_deadline", "_delay_s", "_engine", "_kill_after_s", "_kill_at", "_on_done", "_signal", "_timer",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        where: Where,
        mark: Mark,
        signal_name: str,
        on_done: Callable[[str], None],
        kill_after_s: float = KILL_AFTER_S,
    ) -> None:
        self._engine, self._signal, self._on_done = engine, signal_name, on_done
        self._kill_after_s = kill_after_s
        self._delay_s = _COUNT_FIRST_S
        self._kill_at: float | None = None
        self._timer: Timer | None = None
        self._deadline = engine.loop.call_later(engine.limits["reap"], self._too_late)
        self._control: Control | None = Control(
            engine, where, mark, None, on_ready=self._begin, on_answer=self._take, on_gone=self._gone
        )

    def close(self) -> None:
        """Stop, whatever is left."""
        self._deadline.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._control is not None:
            self._control.close()
            self._control = None

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._kill_at is None:
            self._kill_at = self._engine.loop.now() + self._kill_after_s
        self._say(f"signal {self._signal}")

    def _take(self, answer: str) -> None:
        word, _, number = answer.partition(" ")
        if word != "left":
            return
        if number == "0":
            self._finish("")
            return
        self._timer = self._engine.loop.call_later(self._delay_s, self._look_again)
        self._delay_s = min(self._delay_s * 2, _COUNT_LONGEST_S)

    def _look_again(self) -> None:
        assert self._kill_at is not None
        if self._engine.loop.now() >= self._kill_at:
            # Again and again: what is forked while the script looks is not found before the next look.
            self._signal = "KILL"
            self._say("signal KILL")
        else:
            self._say("count")

    def _say(self, line: str) -> None:
        if self._control is not None:
            self._control.say(line)

    def _gone(self, failure: Failure) -> None:
        # A pod that is not there has no processes; any other refusal leaves them unknown.
        is_absent = failure.http_status == 404
        self._finish("" if is_absent else f"its processes could not be ended: {failure.message}")

    def _too_late(self) -> None:
        reap_s, why = self._engine.limits["reap"], self._control.why if self._control is not None else ""
        self._finish(f"its processes could not all be ended within {reap_s:.0f} s{why}")

    def _finish(self, reason: str) -> None:
        self.close()
        self._on_done(reason)


class Messenger:
    """Passes one signal on to a session's processes, and goes."""

    __slots__ = ("_control", "_name", "is_done")

    def __init__(self, engine: Engine, where: Where, mark: Mark, signal_name: str) -> None:
        self.is_done = False
        self._name = signal_name
        self._control = Control(
            engine, where, mark, None, on_ready=self._say, on_answer=self._finish, on_gone=self._finish
        )

    def close(self) -> None:
        """Give up."""
        self.is_done = True
        self._control.close()

    def _say(self) -> None:
        self._control.say(f"signal {self._name}")

    def _finish(self, _answer: object) -> None:
        self.close()
