"""WebSocket frames from the server's side (RFC 6455 section 5), and Kubernetes' channels inside them.

Sans I/O, and written apart from the agents' own framing: a mistake made in both could not be seen.
"""

from __future__ import annotations

import _ssl
import base64
import ctypes
import hashlib
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE_CHANNEL = 0, 1, 2, 3, 4, 255
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
MAX_PAYLOAD = 32 * 1024 * 1024  # golang.org/x/net/websocket's DefaultMaxPayloadBytes
# A piece of output: the runtime copies by 32 KiB (Go's io.Copy), and each piece becomes one frame.
PIECE = 32 * 1024
_PIECES = 8
_PREFIX = 5  # two bytes, a length of 16 bits, the channel


class FramingError(Exception):
    """The client's bytes are no WebSocket."""


def accept_key(key: str) -> str:
    """The answer to Sec-WebSocket-Key (RFC 6455 section 4.2.2)."""
    digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def frame(opcode: int, payload: bytes | bytearray) -> bytes:
    """One unmasked, final frame."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    if size < 65536:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big") + payload


def channel_frame(channel: int, data: bytes) -> bytes:
    """One message on a channel."""
    return frame(BINARY, bytes((channel,)) + data)


def close_frame(code: int = 1000) -> bytes:
    """The WebSocket's end."""
    return frame(CLOSE, code.to_bytes(2, "big"))


class FrameReader:
    """Takes a client's bytes in any pieces and returns whole messages as (opcode, payload)."""

    def __init__(self) -> None:
        self._partial = bytearray()  # the beginning of a frame
        self._message = bytearray()
        self._message_opcode = 0

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytearray]]:
        """The messages that these bytes complete. Raises FramingError."""
        messages: list[tuple[int, bytearray]] = []
        view = memoryview(data)
        start = self._complete(view, messages) if self._partial else 0
        while True:
            head = _head(view, start)
            if head is None or len(view) < head[1] + head[2]:
                break
            first, payload_at, size = head
            start = payload_at + size
            payload = unmask(bytes(view[payload_at - 4 : payload_at]), bytearray(view[payload_at:start]))
            self._collect(first, payload, messages)
        self._partial += view[start:]
        return messages

    def _complete(self, view: memoryview, messages: list[tuple[int, bytearray]]) -> int:
        """Complete the frame that has begun, if these bytes do; how many of them that takes."""
        partial, taken = self._partial, 0
        while (head := _head(partial, 0)) is None or len(partial) < head[1] + head[2]:
            if taken == len(view):
                return taken
            wanted = 1 if head is None else head[1] + head[2] - len(partial)
            partial += view[taken : taken + wanted]
            taken = min(taken + wanted, len(view))
        mask = bytes(partial[head[1] - 4 : head[1]])
        del partial[: head[1]]
        self._partial = bytearray()
        self._collect(head[0], unmask(mask, partial), messages)
        return taken

    def _collect(self, first: int, payload: bytearray, messages: list[tuple[int, bytearray]]) -> None:
        opcode, final = first & 0x0F, bool(first & 0x80)
        if opcode >= CLOSE:
            if not final or len(payload) > 125:
                raise FramingError("control frame in pieces or too long")
            messages.append((opcode, payload))
        elif opcode == CONTINUATION or not final:
            if opcode != CONTINUATION:
                self._message_opcode = opcode
            self._message += payload
            if final:
                messages.append((self._message_opcode, self._message))
                self._message = bytearray()
        else:
            messages.append((opcode, payload))


def _head(buffer: bytearray | memoryview, start: int) -> tuple[int, int, int] | None:
    """First byte, where the payload begins, its size; None while the head is not whole."""
    if len(buffer) < start + 2:
        return None
    first, second = buffer[start], buffer[start + 1]
    if first & 0x70:
        raise FramingError("reserved bits are set")
    if first & 0x0F not in {CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG}:
        raise FramingError(f"unknown opcode {first & 0x0F}")
    if not second & 0x80:
        raise FramingError("a client's frame must be masked")
    wide = {126: 2, 127: 8}.get(second & 0x7F, 0)
    payload_at = start + 2 + wide + 4
    if len(buffer) < payload_at:
        return None
    size = int.from_bytes(buffer[start + 2 : start + 2 + wide], "big") if wide else second & 0x7F
    if size > MAX_PAYLOAD:
        raise FramingError(f"a frame of {size} bytes")
    return first, payload_at, size


@lru_cache(maxsize=256)
def _table(key: int) -> bytes:
    return bytes(byte ^ key for byte in range(256))


def unmask_by_tables(mask: bytes, data: bytearray) -> bytearray:
    """Data XOR mask in four lanes by translation tables: 0.9 GB/s."""
    for lane in range(4):
        data[lane::4] = data[lane::4].translate(_table(mask[lane]))
    return data


def _native_unmask() -> Callable[[bytes, bytearray], bytearray] | None:
    """XOR at 4 GB/s and more without C of our own: OpenSSL's output feedback mode with a cipher that does nothing.

    The benchmark needs it: with tables the stand-in would be slower at stdin than what is measured against it. None
    where this Python's OpenSSL does not show the function.
    """
    try:
        feedback: Any = ctypes.CDLL(_ssl.__file__).CRYPTO_ofb128_encrypt
        nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p)  # takes anything, changes nothing
    except (AttributeError, OSError):
        return None
    pointer = ctypes.c_void_p
    feedback.argtypes = (pointer, pointer, ctypes.c_size_t, pointer, ctypes.c_char_p, pointer, pointer)
    feedback.restype = None

    def unmask(mask: bytes, data: bytearray) -> bytearray:
        place = (ctypes.c_char * len(data)).from_buffer(data)
        feedback(place, place, len(data), None, mask * 4, ctypes.byref(ctypes.c_int(0)), nothing)
        return data

    try:
        works = unmask(b"\1\2\3\4", bytearray(b"\0" * 37)) == (b"\1\2\3\4" * 10)[:37]
    except (ctypes.ArgumentError, TypeError):
        works = False
    return unmask if works else None


_unmask_much = _native_unmask() or unmask_by_tables


def unmask(mask: bytes, data: bytearray) -> bytearray:
    """Data XOR mask (RFC 6455 section 5.3), in place where it pays."""
    size = len(data)
    if size > 512:
        return _unmask_much(mask, data)
    key = (mask * (size // 4 + 1))[:size]
    return bytearray((int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big"))


class OutputFramer:
    """Reads a pipe straight into ready-made frames: one system call for several, no copy but the kernel's."""

    def __init__(self) -> None:
        self._buffer = bytearray(_PIECES * (_PREFIX + PIECE))
        self._view = memoryview(self._buffer)
        starts = [piece * (_PREFIX + PIECE) for piece in range(_PIECES)]
        self._pieces = [self._view[start + _PREFIX : start + _PREFIX + PIECE] for start in starts]

    def read(self, fd: int, channel: int) -> tuple[int, memoryview | bytes]:
        """Bytes read (0: end of file) and their frames, valid until the next call. Raises BlockingIOError."""
        count = os.readv(fd, self._pieces)
        full, rest = divmod(count, PIECE)
        for piece in range(full):
            self._head(piece, PIECE, channel)
        if rest == 0:
            return count, self._view[: full * (_PREFIX + PIECE)]
        if rest + 1 >= 126:
            self._head(full, rest, channel)
            return count, self._view[: full * (_PREFIX + PIECE) + _PREFIX + rest]
        tail = channel_frame(channel, bytes(self._pieces[full][:rest]))
        return count, bytes(self._view[: full * (_PREFIX + PIECE)]) + tail if full else tail

    def _head(self, piece: int, size: int, channel: int) -> None:
        start = piece * (_PREFIX + PIECE)
        self._buffer[start : start + _PREFIX] = b"\x82\x7e" + (size + 1).to_bytes(2, "big") + bytes((channel,))
