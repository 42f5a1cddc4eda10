"""A second exec into a worker, which asks after a session (`settler`) or signals its processes.

The script at its other end (`bootstrap.control`) has nothing but a shell, so it can't wait: it answers one line for
each line that it is sent, and the pace is kept here.
"""

from __future__ import annotations

from rshagent.call import bootstrap
from rshagent.net.retry import Backoff
from rshagent.session.execution import Execution, Listener
from rshagent.stream.status import Failure
from rshagent.stream.streams import STDOUT, Opened, Output

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Timer
    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.execution import Where
    from rshagent.stream.status import Exited
    from rshagent.stream.streams import Event

KILL_AFTER_S = 5.0
_COUNT_FIRST_S, _COUNT_LONGEST_S = 0.05, 0.5
_ANSWER_S = 10.0
_ANSWER_MAX = 4096  # bytes for each line that it is sent: a worker that says more is not our script


class Control(Listener):
    """A line of conversation with the control script; comes back by itself when its stream is lost.

    `on_ready()` is called whenever the script can be spoken to, `on_answer(line)` for each answer, and
    `on_gone(failure)` at the end: there is no such pod any more, we are refused for good, or `is_worth_it(failure)`
    has denied that another try is.
    """

    __slots__ = (
        "_answers",
        "_backoff",
        "_command",
        "_engine",
        "_execution",
        "_is_closed",
        "_is_open",
        "_is_worth_it",
        "_on_answer",
        "_on_gone",
        "_on_ready",
        "_said",
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
        is_worth_it: Callable[[Failure], bool] = lambda _failure: True,
    ) -> None:
        self._engine, self._where, self._is_worth_it = engine, where, is_worth_it
        self._command = bootstrap.control(mark, pid)
        self._on_ready, self._on_answer, self._on_gone = on_ready, on_answer, on_gone
        self._answers, self._said = b"", 0
        self._trouble = ""
        self._is_closed = self._is_open = False
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
        if self._execution is not None and self._is_open:
            self._said = 0
            self._expect()  # first: sending may find that the stream is lost, and set the time of the next one
            self._execution.send(line.encode() + b"\n")

    def close(self) -> None:
        """End the conversation."""
        self._is_closed = True
        self._cancel()
        execution, self._execution = self._execution, None
        if execution is not None:
            execution.send(b"end\n")
            execution.close()

    def exec_event(self, event: Event) -> None:
        """Take answers apart into lines."""
        if isinstance(event, Opened):
            self._cancel()
            self._is_open = True
            self._on_ready()
        elif isinstance(event, Output) and event.channel == STDOUT:
            self._said += len(event.data)
            if self._said > _ANSWER_MAX:
                self._lose("the worker's answer is malformed")
                return
            self._answers += bytes(event.data)
            while (end := self._answers.find(b"\n")) >= 0 and self._execution is not None:
                line, self._answers = self._answers[:end], self._answers[end + 1 :]
                self._cancel()
                self._backoff, self._trouble = Backoff(), ""
                self._on_answer(line.decode("ascii", "replace").strip())

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Come back, unless there is nothing to come back to."""
        if self._is_closed:
            return
        self._cancel()
        self._execution = None
        failure = outcome if isinstance(outcome, Failure) else Failure(reason, retryable=True)
        if failure.http_status == 404 or not failure.retryable or not self._is_worth_it(failure):
            self._on_gone(failure)
            return
        self._trouble = failure.message
        self._timer = self._engine.loop.call_later(self._backoff.delay_s(failure.retry_after_s), self._connect)

    def _connect(self) -> None:
        self._answers, self._said, self._is_open = b"", 0, False
        self._execution = Execution(self._engine, self._where, self._command, self, stdin=True, acknowledgement=None)
        self._expect()

    def _expect(self) -> None:
        self._cancel()
        self._timer = self._engine.loop.call_later(_ANSWER_S, self._unanswered)

    def _unanswered(self) -> None:
        self._lose("no answer")

    def _lose(self, reason: str) -> None:
        if self._execution is not None:
            self._execution.close()
        self.exec_ended(None, reason)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Reaper:
    """Ends all processes that carry a session's mark: first `signal_name`, KILL after 5 s if nothing else is said.

    `on_done(reason)`: reason "" where none is left, else what is known of those that are. A refusal is believed after
    a while (`Failure.patience_s`) where it `believes_refusals`, else it is tried on as long as any other trouble.
    """

    __slots__ = (
        "_believes_refusals", "_control", "_deadline", "_delay_s", "_engine", "_kill_after_s", "_kill_at", "_on_done",
        "_refused_at", "_signal", "_timer",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        where: Where,
        mark: Mark,
        signal_name: str,
        on_done: Callable[[str], None],
        kill_after_s: float = KILL_AFTER_S,
        *,
        believes_refusals: bool = False,
    ) -> None:
        self._engine, self._signal, self._on_done = engine, signal_name, on_done
        self._kill_after_s, self._believes_refusals = kill_after_s, believes_refusals
        self._refused_at: float | None = None
        self._delay_s = _COUNT_FIRST_S
        self._kill_at: float | None = None
        self._timer: Timer | None = None
        self._deadline = engine.loop.call_later(engine.limits["reap"], self._too_late)
        self._control: Control | None = Control(
            engine, where, mark, None,
            on_ready=self._begin, on_answer=self._take, on_gone=self._gone, is_worth_it=self._is_worth_it,
        )  # fmt: skip

    @property
    def kills(self) -> bool:
        """Say whether it sends KILL by now."""
        return self._signal == "KILL"

    @property
    def why(self) -> str:
        """Say, to be added to a line, what has gone wrong since the last answer."""
        return self._control.why if self._control is not None else ""

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
        if self._timer is not None:
            self._timer.cancel()
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
        reason = "" if _is_absent(failure) else f"its processes could not be ended: {failure.message}"
        self._finish(reason)

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


class Messenger:
    """Passes one signal on to a session's processes, and goes."""

    __slots__ = ("_control", "_repeats", "is_done", "name")

    def __init__(self, engine: Engine, where: Where, mark: Mark, signal_name: str) -> None:
        self.is_done = self._repeats = False
        self.name = signal_name
        self._control = Control(
            engine, where, mark, None, on_ready=self._say, on_answer=self._finish, on_gone=self._finish
        )

    def close(self) -> None:
        """Give up."""
        self.is_done = True
        self._control.close()

    def repeat(self) -> None:
        """Pass it on once more, unless it has not been sent yet."""
        self._repeats = True

    def _say(self) -> None:
        self._repeats = False
        self._control.say(f"signal {self.name}")

    def _finish(self, answer: object) -> None:
        if self._repeats and isinstance(answer, str):
            self._say()
        else:
            self.close()
