"""The client's files joined to the exec stream: output one way, stdin the other, as fast as their readers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.session.events import On, State, StreamEnded
from rshagent.session.exec_request import ExecRequest, Listener
from rshagent.stream.streams import Acknowledged, Opened, Output

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Request
    from rshagent.net.stdio import Stdio
    from rshagent.session.engine import Engine
    from rshagent.session.events import Event
    from rshagent.session.facts import Facts
    from rshagent.session.target import ExecTarget
    from rshagent.stream.status import Exited, Failure
    from rshagent.stream.streams import Event as StreamEvent


class Wire(Listener):
    """One session's stdio and, while it has one, its exec stream; `feed` gets what the state machine has to know."""

    __slots__ = ("_facts", "_feed", "_stdin", "stdio", "stream")

    def __init__(self, stdio: Stdio, facts: Facts, feed: Callable[[Event], None]) -> None:
        self.stdio, self._facts, self._feed = stdio, facts, feed
        self.stream: ExecRequest | None = None
        self._stdin = b""  # the command's text, if that goes by stdin and has not been sent yet
        stdio.attach(on_data=self._read, on_drained=self._drained, on_broken=self._broken)

    @property
    def may_run(self) -> bool:
        """Say whether the server has all that it starts the bootstrap by."""
        return self.stream is not None and self.stream.may_run

    @property
    def has_command(self) -> bool:
        """Say whether the stream has been sent what its bootstrap is to start."""
        return not self._stdin

    @property
    def is_confirmed(self) -> bool:
        """Say whether the command itself said that it ended with 0."""
        return self.stream is not None and self.stream.is_confirmed

    @property
    def is_silent(self) -> bool:
        """Say whether nothing has come for longer than an answer to a ping may take."""
        return self.stream is not None and self.stream.is_silent

    def open(self, engine: Engine, target: ExecTarget, request: Request, acknowledgement: bytes) -> None:
        """Send an exec request."""
        self._stdin = request.stdin
        self.stream = ExecRequest(
            engine, target, request.command, self, stdin=request.needs_stdin, acknowledgement=acknowledgement
        )

    def resume(self) -> None:
        """Take output again, if there is a stream."""
        if self.stream is not None:
            self.stream.resume()

    def close_stream(self) -> None:
        """Drop the stream, if there is one; the command keeps running."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()

    def exec_event(self, event: StreamEvent) -> None:
        """Write output; pass on the acknowledgement."""
        if isinstance(event, Output):
            self.stdio.write(event.channel, event.data)
            if self._facts.state is State.FLUSHING:  # else it is many events of which none decides anything
                self._feed(On.OUTPUT)
            if self.stdio.is_behind and self.stream is not None:
                self.stream.pause()
        elif isinstance(event, Opened):
            text, self._stdin = self._stdin, b""
            if text and self.stream is not None:
                self.stream.send(text)
        elif isinstance(event, Acknowledged):
            self._feed(event)

    def exec_drained(self) -> None:
        """Read on from stdin."""
        self.stdio.resume_reading()

    def exec_stalled(self) -> None:
        """Pass it on: a stream that is stalled by its stdin may not even bring its end."""
        self._feed(On.STALLED)

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Pass it on."""
        self._feed(StreamEnded(outcome, reason))

    def _read(self, data: bytes) -> None:
        """Send what came from stdin; its end is passed on where the protocol can."""
        stream = self.stream  # sending may find that it is lost
        if stream is None:
            return
        if not data:
            stream.close_stdin()
            return
        stream.send(data)
        if stream.is_behind:
            self.stdio.pause_reading()

    def _drained(self) -> None:
        self._feed(On.DRAINED)

    def _broken(self) -> None:
        self._feed(On.STDOUT_CLOSED)
