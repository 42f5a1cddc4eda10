"""HTTP/1.1 as far as a Kubernetes API server needs it: requests out of bytes, responses into bytes. Sans I/O."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_HEAD = 1024 * 1024  # Go's http.DefaultMaxHeaderBytes
_MAX_BODY = 3 * 1024 * 1024


class BadRequestError(Exception):
    """What came is no HTTP/1.1 request that we take."""


class Request:
    """One request."""

    __slots__ = ("body", "headers", "method", "path", "query")

    def __init__(self, method: str, target: str, headers: dict[str, str]) -> None:
        path, _, query = target.partition("?")
        self.method = method
        self.path = unquote(path)
        self.query = parse_qs(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
        self.headers = headers
        self.body = b""

    def first(self, name: str, default: str = "") -> str:
        """A query parameter's first value."""
        return self.query.get(name, (default,))[0]

    def flag(self, name: str) -> bool:
        """A query parameter as Go's strconv.ParseBool has it; anything else is false."""
        return self.first(name) in {"1", "t", "T", "true", "TRUE", "True"}


class RequestReader:
    """Takes bytes in any pieces and returns requests one by one."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._request: Request | None = None

    def feed(self, data: bytes | memoryview) -> None:
        """More bytes."""
        self._buffer += data

    def next(self) -> Request | None:
        """The next whole request. Raises BadRequestError."""
        if self._request is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD:
                    raise BadRequestError("the head is too long")
                return None
            self._request = _head(bytes(self._buffer[:end]).decode("latin-1"))
            del self._buffer[: end + 4]
        body = self._body(self._request.headers)
        if body is None:
            return None
        request, self._request = self._request, None
        request.body = body
        return request

    def rest(self) -> bytes:
        """What came after the last request: the first bytes of an upgraded connection."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _body(self, headers: Mapping[str, str]) -> bytes | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked()
        try:
            size = int(headers.get("content-length", "0"))
        except ValueError as error:
            raise BadRequestError("Content-Length is no number") from error
        if not 0 <= size <= _MAX_BODY:
            raise BadRequestError("the body is too long")
        if len(self._buffer) < size:
            return None
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return body

    def _chunked(self) -> bytes | None:
        body, at = b"", 0
        while True:
            end = self._buffer.find(b"\r\n", at)
            if end < 0:
                return None
            try:
                size = int(self._buffer[at:end].split(b";")[0], 16)
            except ValueError as error:
                raise BadRequestError("a chunk's size is no number") from error
            if len(self._buffer) < end + 2 + size + 2:
                return None
            body += self._buffer[end + 2 : end + 2 + size]
            at = end + 2 + size + 2
            if len(body) > _MAX_BODY:
                raise BadRequestError("the body is too long")
            if size == 0:
                del self._buffer[:at]
                return bytes(body)


def _head(text: str) -> Request:
    lines = text.split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequestError("not an HTTP/1.1 request line")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequestError("a header without a colon")
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return Request(words[0], words[1], headers)


def response(code: int, body: bytes, kind: str = "application/json", **headers: str) -> bytes:
    """A whole response. Header names are given with underscores for dashes."""
    lines = [_status_line(code), f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def json_response(code: int, thing: Any, **headers: str) -> bytes:
    """A whole response with a JSON body."""
    return response(code, json.dumps(thing, separators=(",", ":")).encode() + b"\n", **headers)


def chunked_head(kind: str = "application/json") -> bytes:
    """The head of a watch, or of a log that is followed."""
    return f"{_status_line(200)}\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def switching_protocols(accept: str, protocol: str) -> bytes:
    """101 for a WebSocket."""
    lines = ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}"]
    lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    return "\r\n".join([_status_line(101), *lines, "", ""]).encode()


def _status_line(code: int) -> str:
    return f"HTTP/1.1 {code} {HTTPStatus(code).phrase}"
