"""One exec stream by SPDY/3.1, which a Role that grants only `create` on pods/exec allows.

Kubeflow's training-operator gives its launchers such a Role (pkg/controller.v1/mpi/mpijob_controller.go,
`newLauncherRole`: verbs `create`), so without SPDY no job of that operator could exec. An API server whose feature gate
TranslateStreamCloseWebsocketRequests is off knows no WebSocket v5, but SPDY.

The request is a POST (a WebSocket's is a GET, which takes the verb `get`), and each channel is a SPDY stream that we
open. It reaches through API server and kubelet to the container runtime, where moby/spdystream speaks it, and what that
leaves out of the draft is left out here: no flow control, no settings. Nothing in a header block of the server's is
wanted, so none is inflated; ours are three words, in deflate's stored blocks (RFC 1951 §3.2.4), which need no zlib.

    frame:  control 1|version 3|type, flags|length, body        data 0|stream, flags|length, payload
"""

from __future__ import annotations

from rshagent.net.http import Head
from rshagent.stream.streams import (
    ERROR,
    STDERR,
    STDIN,
    STDOUT,
    Event,
    ExecStream,
    Opened,
    Owed,
    Ponged,
    StreamError,
    upgrade_request,
)

V4 = "v4.channel.k8s.io"  # over SPDY there is no v5: a stream of its own for stdin can be half-closed
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1

_VERSION = 3
_HEADER = 8
_DATA_MAX = (1 << 24) - 1
_CONTROL_MAX = 64 * 1024
_TYPES = {ERROR: b"error", STDIN: b"stdin", STDOUT: b"stdout", STDERR: b"stderr"}  # opened in this order, as kubectl's
_DEFLATE_HEADER = bytes.fromhex("78bbe3c6a7c2")  # with SPDY/3's dictionary, named by its checksum (RFC 1950 §2.2)
_FLUSH = bytes.fromhex("000000ffff")  # an empty block: what came before it is handed on


class SpdyStream(ExecStream):
    """An exec by SPDY. It is open when the server has answered all channels, and ends with the last of them."""

    __slots__ = ("_channels", "_flags", "_is_over", "_left", "_open", "_pings", "_seen", "_stream", "_unanswered")

    def __init__(self, acknowledgement: bytes | None, *, stdin: bool) -> None:
        super().__init__(acknowledgement)
        channels = [channel for channel in _TYPES if stdin or channel != STDIN]
        self._channels = {2 * at + 1: channel for at, channel in enumerate(channels)}  # a client's streams are odd
        self._unanswered = set(self._channels)
        self._open = {stream for stream, channel in self._channels.items() if channel != STDIN}
        self._seen = b""  # the bytes so far of the next header or control frame
        self._stream = self._flags = self._left = 0  # of the data frame whose payload is coming in
        self._pings = 0
        self._is_over = False

    def request(self, target: str, host: str, authorization: str | None) -> bytes:
        """Return the upgrade request."""
        upgrade = ("Upgrade: SPDY/3.1", f"X-Stream-Protocol-Version: {V4}", "Content-Length: 0")
        return upgrade_request("POST", target, host, authorization, upgrade)

    def stdin(self, data: bytes) -> bytes:
        """Return the frames that carry `data`."""
        parts = [data[at : at + _DATA_MAX] for at in range(0, len(data), _DATA_MAX)]
        return b"".join([data_frame(self._stdin_stream, part) for part in parts])

    def close_stdin(self) -> bytes:
        """Return the frame that half-closes the stream of stdin."""
        return data_frame(self._stdin_stream, b"", FIN)

    def ping(self) -> bytes:
        """Return a ping frame. The container runtime answers it, and is kept from ending the stream as idle."""
        self._pings += 1
        return control_frame(PING, (2 * self._pings - 1).to_bytes(4, "big"))

    @property
    def _stdin_stream(self) -> int:
        assert self._channels[3] == STDIN, "this exec has no stdin"
        return 3

    def _switched(self, head: Head, events: list[Event]) -> None:
        self.protocol = head.fields.get("x-stream-protocol-version", "")
        if head.fields.get("upgrade", "").lower() != "spdy/3.1" or self.protocol != V4:
            raise StreamError(f"the server chose the stream protocol {self.protocol!r}, which was not offered")
        opening = [syn_stream(stream, _TYPES[channel]) for stream, channel in self._channels.items()]
        opening[0] = syn_stream(1, _TYPES[ERROR], is_first=True)
        events.append(Owed(b"".join(opening)))

    def _feed_frames(self, data: memoryview, events: list[Event]) -> None:
        at = 0
        while at < len(data) and not self._is_over:
            if self._left:
                payload = data[at : at + self._left]
                at += len(payload)
                self._left -= len(payload)
                self._take_channel(self._channels.get(self._stream), payload, events)
            else:
                missing = _frame_length(self._seen) - len(self._seen)
                self._seen += bytes(data[at : at + missing])
                at += missing
                if len(self._seen) < _frame_length(self._seen):
                    continue
                frame, self._seen = self._seen, b""
                if frame[0] & 0x80:
                    self._take_control(frame, events)
                    continue
                self._stream, self._flags = int.from_bytes(frame[:4], "big"), frame[4]
                self._left = int.from_bytes(frame[5:8], "big")
            if not self._left and self._flags & FIN:
                self._finish(self._stream, events)

    def _take_control(self, frame: bytes, events: list[Event]) -> None:
        kind, flags, body = int.from_bytes(frame[2:4], "big"), frame[4], frame[_HEADER:]
        number = int.from_bytes(body[:4], "big")  # of a stream or a ping, in all that concern us
        if frame[:2] != bytes((0x80, _VERSION)):
            raise StreamError("a frame is of another version than SPDY/3.1")
        if kind == PING:
            events.append(Ponged() if number % 2 else Owed(frame))
        elif kind == GOAWAY:
            self._leave(events)
        elif kind == SYN_STREAM:
            raise StreamError("the server opened a channel, which only a client may")
        elif kind == RST_STREAM and number in self._unanswered:
            raise StreamError("the server refused a channel")
        elif kind in (SYN_REPLY, RST_STREAM):
            if number in self._unanswered:
                self._unanswered.remove(number)
                if not self._unanswered:
                    events.append(Opened())
            if kind == RST_STREAM or flags & FIN:
                self._finish(number, events)

    def _finish(self, stream: int, events: list[Event]) -> None:
        """The server sends nothing more on a stream. The runtime resets those that it has no more use for."""
        self._open.discard(stream)
        if not self._open:
            self._leave(events)

    def _leave(self, events: list[Event]) -> None:
        self._is_over = True
        self._end(events)


def _frame_length(seen: bytes) -> int:
    """Return how many bytes have to be complete: a data frame's header, or a whole control frame."""
    if len(seen) < _HEADER or not seen[0] & 0x80:
        return _HEADER
    length = int.from_bytes(seen[5:8], "big")
    if length > _CONTROL_MAX:
        raise StreamError("a control frame is larger than 64 KiB")
    return _HEADER + length


def syn_stream(stream: int, kind: bytes, *, is_first: bool = False) -> bytes:
    """Return the frame that opens a channel; the first one on a connection begins its one deflate stream."""
    name = b"streamtype"
    block = b"".join((_number(1), _number(len(name)), name, _number(len(kind)), kind))
    length = len(block).to_bytes(2, "little"), (len(block) ^ 0xFFFF).to_bytes(2, "little")
    stored = b"".join((_DEFLATE_HEADER if is_first else b"", b"\0", *length, block, _FLUSH))
    return control_frame(SYN_STREAM, _number(stream) + bytes(6) + stored)  # of no other stream, priority, slot


def control_frame(kind: int, body: bytes, flags: int = 0) -> bytes:
    """Return a control frame."""
    return b"".join((bytes((0x80, _VERSION, 0, kind, flags)), len(body).to_bytes(3, "big"), body))


def data_frame(stream: int, payload: bytes, flags: int = 0) -> bytes:
    """Return a frame of at most 16 MiB of a stream's bytes."""
    return b"".join((_number(stream), bytes((flags,)), len(payload).to_bytes(3, "big"), payload))


def _number(number: int) -> bytes:
    return number.to_bytes(4, "big")
