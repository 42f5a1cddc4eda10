"""A second exec into a worker, which asks about a session (`exit_recovery`) or signals its processes (`reaper`).

The script at its other end (`bootstrap.control`) has nothing but a shell, so it can't wait: it answers one line for
each line that it is sent, and the interval is kept here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.loop import NO_TIMER
from rshagent.call import bootstrap
from rshagent.net.retry import Backoff
from rshagent.session.exec_request import ExecRequest, Listener
from rshagent.stream.status import Failure
from rshagent.stream.streams import STDOUT, Opened, Output

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.target import ExecTarget
    from rshagent.stream.status import Exited
    from rshagent.stream.streams import Event

_ANSWER_S = 10.0
_ANSWER_MAX = 4096  # bytes for each line that it is sent: a worker that says more is not our script


class Control(Listener):
    """A conversation with the control script; it connects again by itself when its stream is lost.

    A kind of conversation says something in `_ready`, whenever the script can be spoken to, and takes the answers in
    `_answered` and the end in `_gone`: the pod is gone, the refusal is final, or `_is_worth_it` denies it.
    """

    __slots__ = (
        "_answers", "_backoff", "_command", "_deadline", "_engine", "_is_open", "_pause", "_pause_s", "_said",
        "_stream", "_target", "_timer", "_trouble", "is_closed",
    )  # fmt: skip

    first_pause_s, longest_pause_s = 0.05, 0.5

    def __init__(self, engine: Engine, target: ExecTarget, mark: Mark, pid: int | None = None) -> None:
        self._engine, self._target, self._command = engine, target, bootstrap.control(mark, pid)
        self._answers, self._said, self._trouble = b"", 0, ""
        self.is_closed = self._is_open = False
        self._stream: ExecRequest | None = None
        self._backoff = Backoff()
        self._pause_s = self.first_pause_s
        self._timer = self._pause = self._deadline = NO_TIMER
        self._connect()

    @property
    def why(self) -> str:
        """Say, to be added to a line, what has gone wrong since the last answer."""
        return f": {self._trouble}" if self._trouble else ""

    def close(self) -> None:
        """End the conversation."""
        self.is_closed = True
        for timer in (self._timer, self._pause, self._deadline):
            timer.cancel()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.send(b"end\n")
            stream.close()

    def exec_event(self, event: Event) -> None:
        """Take answers apart into lines."""
        if isinstance(event, Opened):
            self._timer.cancel()
            self._pause.cancel()  # a new conversation continues the lost conversation
            self._is_open = True
            self._ready()
        elif isinstance(event, Output) and event.channel == STDOUT:
            self._said += len(event.data)
            if self._said > _ANSWER_MAX:
                self._lose("the worker's answer is malformed")
                return
            self._answers += bytes(event.data)
            while (end := self._answers.find(b"\n")) >= 0 and self._stream is not None:
                line, self._answers = self._answers[:end], self._answers[end + 1 :]
                self._timer.cancel()
                self._backoff, self._trouble = Backoff(), ""
                self._answered(line.decode("ascii", "replace").strip())

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Come back, unless there is nothing to come back to."""
        if self.is_closed:
            return
        self._timer.cancel()
        is_outage = self._stream is not None and not self._stream.is_asked
        self._stream = None
        failure = outcome if isinstance(outcome, Failure) else Failure(reason, retryable=True, is_outage=is_outage)
        if failure.http_status == 404 or not failure.retryable or not self._is_worth_it(failure):
            self._gone(failure)
            return
        self._trouble = failure.message
        self._timer = self._engine.loop.call_later(self._backoff.delay_s(failure.retry_after_s), self._connect)

    def _ready(self) -> None:
        raise NotImplementedError

    def _answered(self, answer: str) -> None:
        raise NotImplementedError

    def _gone(self, failure: Failure) -> None:
        raise NotImplementedError

    def _is_worth_it(self, _failure: Failure) -> bool:
        return True

    def _say(self, line: str) -> None:
        """Send one line, if there is a stream: `_answered` or, if that is lost, `_ready` follows."""
        if self._stream is not None and self._is_open:
            self._said = 0
            self._expect()  # first: sending may find that the stream is lost, and set the time of the next one
            self._stream.send(line.encode() + b"\n")

    def _after_pause(self, call: Callable[[], None]) -> None:
        """Call `call()` after a pause, which is longer each time, unless `_ready` comes first."""
        self._pause.cancel()
        self._pause = self._engine.loop.call_later(self._pause_s, call)
        self._pause_s = min(self._pause_s * 2, self.longest_pause_s)

    def _give_up_after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call()` then, instead of at any earlier deadline."""
        self._deadline.cancel()
        self._deadline = self._engine.loop.call_later(seconds, call)

    def _connect(self) -> None:
        self._answers, self._said, self._is_open = b"", 0, False
        self._stream = ExecRequest(self._engine, self._target, self._command, self, stdin=True, acknowledgement=None)
        self._expect()

    def _expect(self) -> None:
        self._timer.cancel()
        self._timer = self._engine.loop.call_later(_ANSWER_S, self._unanswered)

    def _unanswered(self) -> None:
        self._lose("no answer")

    def _lose(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.close()
        self.exec_ended(None, reason)
