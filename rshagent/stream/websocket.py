"""One exec stream by WebSocket, and its frames as a client sends and reads them (RFC 6455), without any I/O.

Payloads are handed on in pieces as they arrive, not as whole frames: an exec stream's frames may be of any size, and
its output needs no boundaries. A message's first byte is its channel (see `streams`); channel 255 says "this channel is
closed", which is the only way to end the command's stdin. That is version 5 of the protocol (KEP-4006). It is spoken by
every API server since Kubernetes 1.30, which translates it for the kubelet (feature gate
TranslateStreamCloseWebsocketRequests, beta and on by default since 1.30), so that no older version is needed.
"""

from __future__ import annotations

import binascii
import hashlib
import os
from typing import NamedTuple

from rshagent.net.http import Head
from rshagent.stream.streams import STDIN, Event, ExecStream, Opened, Owed, Ponged, StreamError, upgrade_request

V5 = "v5.channel.k8s.io"
CLOSE_CHANNEL = 255
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

_CONTROL_MAX = 125  # bytes that control frames carry at most (RFC 6455 §5.5)


class ProtocolError(Exception):
    """The peer sent what RFC 6455 forbids; the stream can't be read any further."""


class Piece(NamedTuple):
    """A part of a message: `begins` and `ends` say whether it holds the message's first and last byte.

    `payload` is a view of the bytes that were fed, valid until the next feed.
    """

    opcode: int
    payload: memoryview
    begins: bool
    ends: bool


class FrameReader:
    """Turns a server's bytes into pieces of messages, however the bytes were split on the way."""

    __slots__ = ("_begins", "_control", "_final", "_header", "_left", "_message", "_opcode")

    def __init__(self) -> None:
        self._header = b""  # the bytes so far of the next frame's
        self._left = 0  # payload bytes of the current frame still to come
        self._opcode = 0
        self._final = True
        self._begins = False
        self._message: int | None = None  # opcode of a data message whose last frame is still to come
        self._control = b""  # control payloads are tiny and wanted whole

    def feed(self, data: memoryview) -> list[Piece]:
        """Return the pieces that `data` completes or continues. Raises ProtocolError."""
        pieces: list[Piece] = []
        at, end = 0, len(data)
        while at < end:
            if self._left == 0:
                at = self._read_header(data, at, pieces)
                continue
            taken = min(self._left, end - at)
            self._left -= taken
            self._take(data[at : at + taken], pieces)
            at += taken
        return pieces

    def _read_header(self, data: memoryview, at: int, pieces: list[Piece]) -> int:
        """Take header bytes from `data` at `at`; return where the rest begins."""
        missing = _header_length(self._header) - len(self._header)
        self._header += bytes(data[at : at + missing])
        at += missing
        if len(self._header) == _header_length(self._header):
            header, self._header = self._header, b""
            self._begin(header)
            if self._left == 0:
                self._take(data[:0], pieces)
        return min(at, len(data))

    def _begin(self, header: bytes) -> None:
        first, second = header[0], header[1]
        opcode, final = first & 0x0F, bool(first & 0x80)
        if first & 0x70:
            raise ProtocolError("reserved bits are set in a frame")
        if second & 0x80:
            raise ProtocolError("the server masked a frame")
        length = second if second < 126 else int.from_bytes(header[2:], "big")
        if length >> 63:
            raise ProtocolError("a frame's length is negative")
        if opcode >= CLOSE:
            if opcode > PONG or not final or length > _CONTROL_MAX:
                raise ProtocolError(f"a control frame is malformed (opcode {opcode}, {length} bytes)")
            self._control = b""
        elif opcode > BINARY:
            raise ProtocolError(f"a frame has the unknown opcode {opcode}")
        elif (opcode == CONTINUATION) == (self._message is None):
            raise ProtocolError("a continuation frame continues nothing, or a message was not continued")
        elif opcode != CONTINUATION:
            self._message = opcode
        self._begins = opcode != CONTINUATION
        self._opcode, self._final, self._left = opcode, final, length

    def _take(self, payload: memoryview, pieces: list[Piece]) -> None:
        """Hand on a part of the current frame's payload."""
        done = self._left == 0
        if self._opcode >= CLOSE:
            self._control += bytes(payload)
            if done:
                pieces.append(Piece(self._opcode, memoryview(self._control), begins=True, ends=True))
            return
        assert self._message is not None
        pieces.append(Piece(self._message, payload, self._begins, done and self._final))
        self._begins = False
        if done and self._final:
            self._message = None


def _header_length(seen: bytes) -> int:
    """Return how many bytes a server's frame header has, by the bytes seen so far."""
    if len(seen) < 2:
        return 2
    return {126: 4, 127: 10}.get(seen[1] & 0x7F, 2)


def frame(opcode: int, payload: bytes, *, first: int | None = None, key: bytes | None = None) -> bytes:
    """Return one masked final frame (RFC 6455 §5.3: a client masks all it sends, each frame with a new key).

    `first` is a byte to put before the payload, without the copy that putting it there would take. `key` is for who
    has a reason to choose the masking key: with NO_KEY the mask changes nothing and costs nothing.
    """
    length = len(payload) + (first is not None)
    key = key or os.urandom(4)
    if length < 126:
        header = bytes((0x80 | opcode, 0x80 | length))
    elif length < 1 << 16:
        header = bytes((0x80 | opcode, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        header = bytes((0x80 | opcode, 0x80 | 127)) + length.to_bytes(8, "big")
    if first is None:
        return b"".join((header, key, _mask(payload, key)))
    return b"".join((header, key, bytes((first ^ key[0],)), _mask(payload, key[1:] + key[:1])))


NO_KEY = bytes(4)


def _mask(payload: bytes, key: bytes) -> bytes:
    """XOR with the repeated key, as two big integers: 40 times as fast as a loop over bytes."""
    if key == NO_KEY:
        return payload
    length = len(payload)
    keys = (key * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")).to_bytes(length, "little")


class WebSocketStream(ExecStream):
    """An exec by WebSocket, whose messages begin with a channel's number."""

    __slots__ = ("_channel", "_frames", "_key")

    def __init__(self, acknowledgement: bytes | None) -> None:
        super().__init__(acknowledgement)
        self._key = binascii.b2a_base64(os.urandom(16), newline=False)
        self._frames = FrameReader()
        self._channel: int | None = None  # of the message whose pieces are coming in

    def request(self, target: str, host: str, authorization: str | None) -> bytes:
        """Return the upgrade request."""
        upgrade = (
            "Upgrade: websocket",
            f"Sec-WebSocket-Key: {self._key.decode()}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {V5}",
        )
        return upgrade_request("GET", target, host, authorization, upgrade)

    def stdin(self, data: bytes) -> bytes:
        """Return the frame that carries `data` to the command's stdin.

        It is masked with a key of zeros. RFC 6455 §5.3 wants an unpredictable one, so that a script in a browser
        can't make bytes that a proxy on the way takes for its own protocol (§10.3). These bytes are their sender's own,
        and go through TLS; any other key would double what stdin costs.
        """
        return frame(BINARY, data, first=STDIN, key=NO_KEY)

    def close_stdin(self) -> bytes:
        """Return the frame that ends the command's stdin."""
        return frame(BINARY, bytes((STDIN,)), first=CLOSE_CHANNEL)

    def ping(self) -> bytes:
        """Return a ping frame; the API server answers it, whatever has happened to the pod."""
        return frame(PING, b"")

    def _switched(self, head: Head, events: list[Event]) -> None:
        accept = binascii.b2a_base64(
            hashlib.sha1(self._key + _GUID, usedforsecurity=False).digest(), newline=False
        ).decode()
        if head.fields.get("sec-websocket-accept") != accept:
            raise StreamError("the answer to the upgrade is not for our request")
        self.protocol = head.fields.get("sec-websocket-protocol", "")
        if self.protocol != V5:
            raise StreamError(
                f"the server chose the stream protocol {self.protocol!r} instead of {V5}; "
                "the API server must be Kubernetes 1.31 or later, and a proxy must pass on Sec-WebSocket-Protocol"
            )
        events.append(Opened())

    def _feed_frames(self, data: memoryview, events: list[Event]) -> None:
        try:
            for piece in self._frames.feed(data):
                self._take(piece, events)
        except ProtocolError as error:
            raise StreamError(str(error)) from None

    def _take(self, piece: Piece, events: list[Event]) -> None:
        opcode, payload = piece.opcode, piece.payload
        if opcode == PING:
            events.append(Owed(frame(PONG, bytes(payload))))
        elif opcode == PONG:
            events.append(Ponged())
        elif opcode == CLOSE:
            self._end(events)
        else:
            if piece.begins:
                self._channel = None
            if self._channel is None and payload:
                self._channel, payload = payload[0], payload[1:]
            if payload and self._channel != CLOSE_CHANNEL:
                self._take_channel(self._channel, payload, events)
