"""One exec request on the wire: a connection, its stream protocol, and the pings that keep both honest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.loop import NO_TIMER
from rshagent.net.cluster import ConfigError
from rshagent.net.connection import Link, Lost, Owner
from rshagent.stream import status, streams
from rshagent.stream.spdy import SpdyStream
from rshagent.stream.streams import Ended, Opened, Owed, Ponged, Refused, StreamError
from rshagent.stream.websocket import WebSocketStream

if TYPE_CHECKING:
    from rshagent.session.engine import Engine
    from rshagent.session.target import ExecTarget
    from rshagent.stream.status import Exited, Failure
    from rshagent.stream.streams import Event, ExecStream

_CLOSE_S = 5.0  # from the command's status to the end of the stream


class Listener:
    """Whom an exec request tells. After `exec_ended` nothing more comes."""

    __slots__ = ()

    def exec_event(self, event: Event) -> None:
        """Opened, Acknowledged or Output."""

    def exec_drained(self) -> None:
        """What was sent to the command has left (`ExecRequest.is_behind`)."""

    def exec_stalled(self) -> None:
        """Nothing comes, and that may be since the command does not take its stdin. Told again while it lasts."""

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        """Take the result: the command's exit, a failure that the server reported, or None if it is unknown."""


_NOBODY = Listener()


class ExecRequest(Owner):
    """An exec request from its connection to its end."""

    __slots__ = (
        "_by_spdy", "_closing", "_cluster", "_engine", "_first", "_heard_at", "_link", "_listener",
        "_loop", "_ping", "_pings", "_pings_behind", "_request", "_stream", "is_asked",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        exec_target: ExecTarget,
        command: list[bytes],
        listener: Listener,
        *,
        stdin: bool,
        acknowledgement: bytes | None,
    ) -> None:
        """Begin; what comes of it is told to `listener` by the loop, never from within this call."""
        loop, cluster = engine.loop, engine.cluster
        self._engine, self._loop, self._cluster, self._listener = engine, loop, cluster, listener
        session = (acknowledgement or b"").rpartition(b" ")[2]
        target = streams.target(
            exec_target.namespace, exec_target.pod, exec_target.container, command, stdin=stdin, session=session
        )
        self._request: tuple[str, bytes | None, bool] | None = (cluster.path + target, acknowledgement, stdin)
        self._closing = self._ping = NO_TIMER
        self._pings = 0  # without an answer so far
        self._pings_behind = 0  # how many answers until one tells that all stdin has been taken
        self._first: Refused | None = None  # by WebSocket, before the same was asked by SPDY
        self._link: Link | None = None
        self._connect(by_spdy=engine.by_spdy)

    @property
    def is_behind(self) -> bool:
        """Say whether the command does not take its stdin as fast as it comes."""
        return self._link is not None and self._link.is_behind

    @property
    def may_run(self) -> bool:
        """Say whether the server has all that it starts the command by; by SPDY that is the channels, too."""
        return self.is_asked and (not self._by_spdy or self._stream.protocol != "")

    @property
    def is_silent(self) -> bool:
        """Say whether nothing has come for longer than an answer to a ping may take."""
        listens = self._link is not None and not self._link.is_paused
        return listens and self._loop.now() - self._heard_at > self._engine.limits["silence"]

    @property
    def is_confirmed(self) -> bool:
        """Say whether the command itself said that it ended with 0 (`bootstrap.success`)."""
        return self._stream.is_confirmed

    def send(self, data: bytes) -> None:
        """Send bytes to the command's stdin."""
        self._pings_behind = self._pings + 1
        if self._link is not None:
            self._link.send(self._stream.stdin(data))

    def close_stdin(self) -> None:
        """End the command's stdin."""
        if self._link is not None:
            self._link.send(self._stream.close_stdin())

    def pause(self) -> None:
        """Take no more output for now."""
        if self._link is not None:
            self._link.pause()

    def resume(self) -> None:
        """Take output again."""
        if self._link is not None:
            self._heard_at = self._loop.now()
            self._link.resume()

    def close(self) -> None:
        """Drop the stream; the listener gets no more events. The command runs on (kubernetes/kubernetes#89031)."""
        self._drop_link()
        self._listener = _NOBODY  # what came with the bytes at hand is not told any more, either

    def _drop_link(self) -> None:
        self._ping.cancel()
        self._closing.cancel()
        if self._link is not None:
            self._link.close()
            self._link = None

    def abandon(self) -> None:
        """Give the stream up after an error of our own."""
        self._end(None, "internal error")

    def opened(self) -> None:
        """Send the request."""
        assert self._link is not None
        try:
            authorization = self._cluster.authorization()
        except ConfigError as error:
            self._end(status.Failure(str(error), retryable=False), "")
            return
        assert self._request is not None
        self.is_asked = True
        self._heard_at = self._loop.now()
        self._ping = self._loop.call_later(self._engine.limits["ping"], self._beat)
        # The last thing here, for it may find that the connection is gone, and end all.
        self._link.send(self._stream.request(self._request[0], self._cluster.authority, authorization))

    def received(self, data: memoryview) -> None:
        """Hand on what the bytes mean."""
        self._heard_at = self._loop.now()
        try:
            events = self._stream.feed(data)
        except StreamError as error:
            self._end(None, f"the stream can't be read: {error}")
            return
        self._hand_on(events)
        if self._stream.has_status and self._closing is NO_TIMER and self._link is not None:
            self._closing = self._loop.call_later(_CLOSE_S, self._close_late)

    def drained(self) -> None:
        """Let the listener send again."""
        self._listener.exec_drained()

    def closed(self, lost: Lost) -> None:
        """Hand on what the stream still has to say."""
        self._link = None
        if lost.is_final:
            self._cluster.renew()
            self._end(status.Failure(lost.reason, retryable=False), "")
            return
        self._hand_on(self._stream.lost(), lost.reason)

    def _connect(self, *, by_spdy: bool) -> None:
        assert self._request is not None
        _, acknowledgement, stdin = self._request
        self._by_spdy = by_spdy
        self.is_asked = False  # whether the API server could be reached: a connection was open, with TLS
        self._stream: ExecStream = (
            SpdyStream(acknowledgement, stdin=stdin) if by_spdy else WebSocketStream(acknowledgement)
        )
        self._heard_at = self._loop.now()
        self._pings = self._pings_behind = 0
        self._link = Link(self._loop, self._cluster, self)

    def _hand_on(self, events: list[Event], reason: str = "the stream ended without a status") -> None:
        for event in events:
            if isinstance(event, Owed):
                if self._link is not None and not self._link.is_behind:  # only the last ping wants an answer (§5.5.3)
                    self._link.send(event.data)
            elif isinstance(event, Refused):
                self._refused(event)
                return
            elif isinstance(event, Ended):
                self._end(None if event.status is None else status.from_error_channel(event.status), reason)
                return
            elif isinstance(event, Ponged):
                self._pings -= self._pings > 0
                self._pings_behind -= self._pings_behind > 0
            else:
                if isinstance(event, Opened):
                    self._request = None  # kilobytes that a long session need not keep
                    self._engine.by_spdy = self._by_spdy
                self._listener.exec_event(event)

    def _refused(self, event: Refused) -> None:
        """Ask once more, by SPDY, where that may be what is missing: nothing was started. Else it is the end."""
        code = event.head.status
        if code == 401:
            self._cluster.renew()
        if not self._by_spdy and status.is_about_websocket(code, event.body):
            self._drop_link()
            self._first = event
            self._connect(by_spdy=True)
            return
        if code == 403:
            self._engine.by_spdy = False  # try the next request in the usual order
        if self._first is not None and status.is_about_websocket(code, event.body):  # SPDY is what it does not know
            event, self._first = self._first, None
        said, retry_after = event.head.status, event.head.fields.get("retry-after")
        is_second = self._first is not None
        self._end(status.from_http(said, event.body, retry_after, what="exec", is_second=is_second), "")

    def _end(self, outcome: Exited | Failure | None, reason: str) -> None:
        listener = self._listener
        self.close()
        listener.exec_ended(outcome, reason)

    def _beat(self) -> None:
        """Ping, or give a stream up that has been silent for too long. A paused one can't hear the answer.

        Nor does a ping arrive behind stdin that the command does not take: all who pass it on wait for the command.
        """
        assert self._link is not None
        if self.is_silent and not self._pings_behind:
            self._lose(f"the API server has been silent for {self._engine.limits['silence']:.0f} s")
            return
        if self.is_silent:
            self._listener.exec_stalled()
            if self._link is None:
                return
        self._ping = self._loop.call_later(self._engine.limits["ping"], self._beat)
        if self._stream.protocol:  # the last thing here: it may find that the connection is gone, and end all
            self._pings += 1
            self._link.send(self._stream.ping())

    def _close_late(self) -> None:
        self._lose("the stream did not end after the command's status")

    def _lose(self, reason: str) -> None:
        if self._link is not None:
            self._link.close()
            self.closed(Lost(reason))
