"""HTTP/1.1 responses from bytes (RFC 9112), without I/O: as much as the API server and proxies need."""

from __future__ import annotations

from typing import NamedTuple

HEAD_MAX = 64 * 1024
_DIGITS_MAX = 20  # of a length in bytes; Python refuses to read a number of thousands of digits


class HttpError(Exception):
    """The peer's answer is not HTTP/1.1, or larger than any sane one."""


class Head(NamedTuple):
    """Status code and header fields (names in lower case) of an answer."""

    status: int
    fields: dict[str, str]


class HeadReader:
    """Collects bytes until the answer's head is whole; what follows it stays in `rest`."""

    __slots__ = ("_seen", "rest")

    def __init__(self) -> None:
        self._seen = bytearray()
        self.rest = b""

    def feed(self, data: bytes | memoryview) -> Head | None:
        """Return the head once it is whole, else None. Raises HttpError."""
        self._seen += data
        end = self._seen.find(b"\r\n\r\n")
        if end < 0:
            if len(self._seen) > HEAD_MAX:
                raise HttpError("the answer's head is longer than 64 KiB")
            return None
        self.rest = bytes(self._seen[end + 4 :])
        return parse_head(bytes(self._seen[:end]))


def parse_head(data: bytes) -> Head:
    """Read a status line and header fields. Raises HttpError."""
    lines = data.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or len(parts[1]) != 3 or not parts[1].isdecimal():
        raise HttpError("the answer is not HTTP/1.1")
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpError("a header line has no colon")
        fields[name.strip().lower()] = value.strip()
    return Head(int(parts[1]), fields)


class BodyReader:
    """Takes the transfer coding off a body; `done` once it is whole. A body without a length ends with the stream."""

    __slots__ = ("_buffer", "_chunked", "_left", "_trailer", "done")

    def __init__(self, head: Head) -> None:
        self._chunked = head.fields.get("transfer-encoding", "").lower() == "chunked"
        length = head.fields.get("content-length")
        if length is not None and not (length.isdecimal() and len(length) < _DIGITS_MAX):
            raise HttpError("the answer's Content-Length is not a number")
        self._left: int | None = None if length is None or self._chunked else int(length)
        self._buffer = bytearray()
        self._trailer = False
        self.done = self._left == 0 or head.status in (204, 304)

    def feed(self, data: bytes | memoryview) -> bytes:
        """Return the body bytes that `data` brought. Raises HttpError."""
        if self.done:
            return b""
        if self._chunked:
            self._buffer += data
            return self._read_chunks()
        if self._left is None:
            return bytes(data)
        part = bytes(data[: self._left])
        self._left -= len(part)
        self.done = self._left == 0
        return part

    def _read_chunks(self) -> bytes:
        """Take whole lines and whatever there is of the current chunk out of the buffer (RFC 9112 §7.1)."""
        body, buffer = bytearray(), self._buffer
        while buffer and not self.done:
            if self._left:
                part = buffer[: self._left]
                body += part
                self._left -= len(part)
                del buffer[: len(part)]
                continue
            end = buffer.find(b"\r\n")
            if end < 0:
                if len(buffer) > HEAD_MAX:
                    raise HttpError("a chunk's size line is longer than 64 KiB")
                break
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            self._read_line(line)
        return bytes(body)

    def _read_line(self, line: bytes) -> None:
        """Take a size line, the end of a chunk (an empty line), or a trailer line."""
        if self._trailer:
            self.done = not line
            return
        if self._left == 0:
            if line:
                raise HttpError("a chunk is longer than its size")
            self._left = None
            return
        try:
            self._left = int(line.split(b";")[0], 16)
        except ValueError:
            raise HttpError("a chunk's size is not a number") from None
        if self._left < 0:
            raise HttpError("a chunk's size is negative")
        self._trailer = self._left == 0
