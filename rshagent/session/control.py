"""A second exec into a worker, which asks about a session (`exit_recovery`) or signals its processes (`reaper`).

The script at its other end (`bootstrap.control`) has nothing but a shell, so it can't wait: it answers one line for
each line that it is sent, and the interval is kept here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.call import bootstrap
from rshagent.net.retry import Backoff
from rshagent.session.exec_request import ExecRequest, Listener
from rshagent.stream.status import Failure
from rshagent.stream.streams import STDOUT, Opened, Output

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Timer
    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.target import ExecTarget
    from rshagent.stream.status import Exited
    from rshagent.stream.streams import Event

_ANSWER_S = 10.0
_ANSWER_MAX = 4096  # bytes for each line that it is sent: a worker that says more is not our script


class Control(Listener):
    """A line of conversation with the control script; comes back by itself when its stream is lost.

    `on_ready()` is called whenever the script can be spoken to, `on_answer(line)` for each answer, and
    `on_gone(failure)` at the end: the pod is gone, the refusal is final, or `is_worth_it(failure)` is false.
    """

    __slots__ = (
        "_answers", "_backoff", "_command", "_engine", "_is_closed", "_is_open", "_is_worth_it", "_on_answer",
        "_on_gone", "_on_ready", "_said", "_stream", "_target", "_timer", "_trouble",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        target: ExecTarget,
        mark: Mark,
        pid: int | None,
        *,
        on_ready: Callable[[], None],
        on_answer: Callable[[str], None],
        on_gone: Callable[[Failure], None],
        is_worth_it: Callable[[Failure], bool] = lambda _failure: True,
    ) -> None:
        self._engine, self._target, self._is_worth_it = engine, target, is_worth_it
        self._command = bootstrap.control(mark, pid)
        self._on_ready, self._on_answer, self._on_gone = on_ready, on_answer, on_gone
        self._answers, self._said = b"", 0
        self._trouble = ""
        self._is_closed = self._is_open = False
        self._backoff = Backoff()
        self._stream: ExecRequest | None = None
        self._timer: Timer | None = None
        self._connect()

    @property
    def why(self) -> str:
        """Say, to be added to a line, what has gone wrong since the last answer."""
        return f": {self._trouble}" if self._trouble else ""

    def say(self, line: str) -> None:
        """Send one line; the answer comes to `on_answer`, or `on_ready` is called again instead."""
        if self._stream is not None and self._is_open:
            self._said = 0
            self._expect()  # first: sending may find that the stream is lost, and set the time of the next one
            self._stream.send(line.encode() + b"\n")

    def close(self) -> None:
        """End the conversation."""
        self._is_closed = True
        self._cancel()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.send(b"end\n")
            stream.close()

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
            while (end := self._answers.find(b"\n")) >= 0 and self._stream is not None:
                line, self._answers = self._answers[:end], self._answers[end + 1 :]
                self._cancel()
                self._backoff, self._trouble = Backoff(), ""
                self._on_answer(line.decode("ascii", "replace").strip())

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Come back, unless there is nothing to come back to."""
        if self._is_closed:
            return
        self._cancel()
        is_outage = self._stream is not None and not self._stream.is_asked
        self._stream = None
        failure = outcome if isinstance(outcome, Failure) else Failure(reason, retryable=True, is_outage=is_outage)
        if failure.http_status == 404 or not failure.retryable or not self._is_worth_it(failure):
            self._on_gone(failure)
            return
        self._trouble = failure.message
        self._timer = self._engine.loop.call_later(self._backoff.delay_s(failure.retry_after_s), self._connect)

    def _connect(self) -> None:
        self._answers, self._said, self._is_open = b"", 0, False
        self._stream = ExecRequest(self._engine, self._target, self._command, self, stdin=True, acknowledgement=None)
        self._expect()

    def _expect(self) -> None:
        self._cancel()
        self._timer = self._engine.loop.call_later(_ANSWER_S, self._unanswered)

    def _unanswered(self) -> None:
        self._lose("no answer")

    def _lose(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.close()
        self.exec_ended(None, reason)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
