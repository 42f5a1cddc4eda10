"""One exec stream of the Kubernetes API as a client sees it: bytes in, events out; no I/O, no clock.

    asked ──101──► open ──acknowledgement on stderr──► acknowledged ──status, close──► ended
      └──any other answer──► Refused

Here is what the two ways of speaking have in common (`websocket`, the usual one, and `spdy`): the request's answer, and
the channels: 0 stdin, 1 stdout, 2 stderr, 3 the command's end as a Status, 4 terminal size.

Only the acknowledgement, a line that the bootstrap writes to stderr, says that the command started: the 101 is answered
before (by WebSocket v5 even before the kubelet is dialled). That line, and what a shell says before it (a warning about
its locale), is not the command's; it comes out only where no acknowledgement does.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from rshagent.call.bootstrap import success
from rshagent.net.http import BodyReader, Head, HeadReader, HttpError

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3

_REFUSAL_BODY_MAX = 64 * 1024
_STATUS_MAX = 64 * 1024
_NOISE_MAX = 64 * 1024  # of a shell's own output before the acknowledgement
_ACK_LINE_MAX = 64  # what may follow the acknowledgement's prefix: a blank, a pid, a line feed


class Opened:
    """The channels are open; the command may or may not have started."""


class Refused(NamedTuple):
    """The server answered the request with an ordinary HTTP answer."""

    head: Head
    body: bytes


class Output(NamedTuple):
    """Bytes of the command's stdout or stderr; `data` is valid until the next feed."""

    channel: int
    data: memoryview


class Acknowledged(NamedTuple):
    """The bootstrap says that the command starts; `pid`: its process id in the container, 0 if that can't be read."""

    pid: int


class Owed(NamedTuple):
    """Bytes to send immediately: the answer to a ping, or what opens the channels."""

    data: bytes


class Ponged:
    """The server answered a ping."""


class Ended(NamedTuple):
    """The stream is over; `status` is all that came on the error channel, None where nothing did."""

    status: bytes | None


Event = Opened | Refused | Output | Acknowledged | Owed | Ponged | Ended


class StreamError(Exception):
    """The server's bytes make no sense; this stream, and no other, is lost."""


class ExecStream:
    """The protocol of one exec. `feed` what comes in; send what the other methods return.

    A kind of stream gives `request`, `stdin`, `close_stdin` and `ping`, and reads what comes after the answer's head by
    `_switched`, once, and `_feed_frames`.
    """

    __slots__ = ("_ack", "_body", "_head", "_held", "_refused", "_status", "_success", "is_confirmed", "protocol")

    def __init__(self, acknowledgement: bytes | None) -> None:
        """`acknowledgement` is the prefix of the line to wait for, None where the command writes none."""
        self._ack = acknowledgement
        self._success = None if acknowledgement is None else success(acknowledgement)
        self.is_confirmed = False  # whether the command itself said that it ended with 0
        self._head: HeadReader | None = HeadReader()
        self._refused: Head | None = None
        self._body: tuple[BodyReader, bytearray] | None = None
        self._held = b""  # stderr before the acknowledgement, or what may be the beginning of the other line
        self._status: bytearray | None = None
        self.protocol = ""

    def request(self, target: str, host: str, authorization: str | None) -> bytes:
        """Return the upgrade request for `target` (path and query)."""
        raise NotImplementedError

    def stdin(self, data: bytes) -> bytes:
        """Return what carries `data` to the command's stdin."""
        raise NotImplementedError

    def close_stdin(self) -> bytes:
        """Return what ends the command's stdin."""
        raise NotImplementedError

    def ping(self) -> bytes:
        """Return what the server answers, if it is still there."""
        raise NotImplementedError

    @property
    def has_status(self) -> bool:
        """Say whether the command's status has come, though perhaps not yet the stream's end."""
        return self._status is not None

    def feed(self, data: memoryview) -> list[Event]:
        """Return what `data` means. Raises StreamError; the stream is of no use after that."""
        events: list[Event] = []
        try:
            if self._head is not None:
                data = self._feed_head(data, events)
            if self._refused is not None:
                self._feed_refusal(data, events)
            elif self._head is None:
                self._feed_frames(data, events)
        except HttpError as error:
            raise StreamError(str(error)) from None
        return events

    def lost(self) -> list[Event]:
        """Return what is still to say when the connection ended before the stream did."""
        events: list[Event] = []
        if self._refused is not None and self._body is not None:
            events.append(Refused(self._refused, bytes(self._body[1])))
        else:
            self._end(events)
        return events

    def _switched(self, head: Head, events: list[Event]) -> None:
        """Check the answer that switches protocols."""
        raise NotImplementedError

    def _feed_frames(self, data: memoryview, events: list[Event]) -> None:
        """Read what follows that answer."""
        raise NotImplementedError

    def _feed_head(self, data: memoryview, events: list[Event]) -> memoryview:
        """Read the answer's head; return the bytes after it."""
        assert self._head is not None
        head = self._head.feed(data)
        if head is None:
            return data[:0]
        rest, self._head = memoryview(self._head.rest), None
        if head.status != 101:
            self._refused, self._body = head, (BodyReader(head), bytearray())
        else:
            self._switched(head, events)
        return rest

    def _feed_refusal(self, data: memoryview, events: list[Event]) -> None:
        if self._body is None:
            return
        assert self._refused is not None
        reader, body = self._body
        body += reader.feed(data)
        if reader.done or len(body) > _REFUSAL_BODY_MAX:
            events.append(Refused(self._refused, bytes(body)))
            self._body = None

    def _take_channel(self, channel: int | None, payload: memoryview, events: list[Event]) -> None:
        if channel == STDERR and self._ack is not None:
            self._seek_acknowledgement(payload, events)
        elif channel == STDERR and self._success is not None:
            self._seek_success(self._success, self._held + bytes(payload), events)
        elif channel in (STDOUT, STDERR):
            events.append(Output(channel, payload))
        elif channel == ERROR:
            if self._status is None:
                self._status = bytearray()
            self._status += payload
            if len(self._status) > _STATUS_MAX:
                raise StreamError("the command's status is larger than 64 KiB")
        else:
            raise StreamError(f"the server used channel {channel}, which only a client may")

    def _seek_acknowledgement(self, payload: memoryview, events: list[Event]) -> None:
        """Look for the acknowledgement in stderr, and drop what the bootstrap's own shell said before it.

        The command's shell says the same again. The line may follow a warning that has no line feed, and it can't occur
        by chance: it holds the session's id.
        """
        assert self._ack is not None
        held = self._held + bytes(payload)
        at = held.find(self._ack)
        end = held.find(b"\n", at) if at >= 0 else -1
        if end < 0:
            if at >= 0 and len(held) - at > len(self._ack) + _ACK_LINE_MAX:
                raise StreamError("the acknowledgement of the start is malformed")
            if at < 0 and len(held) > _NOISE_MAX:
                raise StreamError("the worker's shell talks instead of starting the command")
            self._held = held
            return
        pid = held[at + len(self._ack) : end].strip()
        self._ack, self._held = None, b""
        events.append(Acknowledged(int(pid) if pid.isdigit() and len(pid) < 10 else 0))
        assert self._success is not None
        self._seek_success(self._success, held[end + 1 :], events)

    def _seek_success(self, line: bytes, data: bytes, events: list[Event]) -> None:
        """Take the line that confirms a success out of stderr; only what may be its beginning waits for more."""
        at, self._held = data.find(line), b""
        if at >= 0:
            self._success, self.is_confirmed = None, True
            data = data[:at] + data[at + len(line) :]
        else:
            at = data.rfind(line[:1])
            if at >= 0 and line.startswith(data[at:]):
                data, self._held = data[:at], data[at:]
        if data:
            events.append(Output(STDERR, memoryview(data)))

    def _end(self, events: list[Event]) -> None:
        if self._held:
            events.append(Output(STDERR, memoryview(self._held)))
            self._held = b""
        events.append(Ended(None if self._status is None else bytes(self._status)))


def upgrade_request(method: str, target: str, host: str, authorization: str | None, upgrade: tuple[str, ...]) -> bytes:
    """Return a request whose answer is another protocol."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: Upgrade", *upgrade]
    lines.append("User-Agent: mpi-agents-rshagent")
    if authorization is not None:
        lines.append(f"Authorization: {authorization}")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def target(
    namespace: str, pod: str, container: str | None, command: list[bytes], *, stdin: bool, session: bytes = b""
) -> str:
    """Return path and query of the exec request; every byte that could mean something else is escaped.

    What is not a user's, and has no `session` in it, is the same in most requests: it is quoted once.
    """
    words = [_quote_ours(word, session or b" ") for word in command[:_OURS]] + [quote(word) for word in command[_OURS:]]
    query = "".join([f"command={word}&" for word in words])
    where = f"container={_quote_once(container.encode())}&" if container else ""
    asked = "stdin=true&" if stdin else ""
    return f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{query}{where}{asked}stdout=true&stderr=true"


_OURS = 4  # arguments of a command before TEXT: `/bin/sh -c SCRIPT sh`
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/%"
_ESCAPES = [f"%{byte:02X}" for byte in range(256)]


def quote(data: bytes) -> str:
    """Percent-encode for a query (RFC 3986 §3.4), by one search for each character that needs it."""
    text = data.decode("latin-1").replace("%", "%25")
    for byte in set(data.translate(None, _PLAIN)):
        text = text.replace(chr(byte), _ESCAPES[byte])
    return text


_quote_once = functools.lru_cache(512)(quote)


def _quote_ours(argument: bytes, between: bytes) -> str:
    parts = argument.split(between)
    return _quote_once(parts[0]) if len(parts) == 1 else quote(between).join(map(_quote_once, parts))
