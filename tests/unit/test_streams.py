"""Exec streams, from a server's bytes written by hand: any split gives the same events, bad ones StreamError alone."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splitting import PLACES, byte_by_byte, cut
from test_websocket import FIN, decode, server_frame

from rshagent.call.bootstrap import success
from rshagent.stream import streams
from rshagent.stream.streams import (
    STDERR,
    STDOUT,
    Acknowledged,
    Ended,
    ExecStream,
    Opened,
    Output,
    Owed,
    Ponged,
    Refused,
    StreamError,
)
from rshagent.stream.websocket import BINARY, CLOSE, PING, PONG, WebSocketStream

if TYPE_CHECKING:
    from collections.abc import Callable

ACK = b"mpi-agent 0123456789abcdef"
V5 = "v5.channel.k8s.io"
SUCCESS = b'{"metadata":{},"status":"Success"}'


def asked(acknowledgement: bytes | None = None) -> tuple[ExecStream, bytes]:
    """Return a stream that has sent its request, and the key of its handshake."""
    stream = WebSocketStream(acknowledgement)
    request = stream.request("/exec", "api:443", "Bearer t")
    key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    assert len(base64.b64decode(key)) == 16
    return stream, key


def switching(key: bytes, protocol: str = V5) -> bytes:
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\nSec-WebSocket-Protocol: " + protocol.encode() + b"\r\n\r\n"
    )


def message(channel: int, data: bytes) -> bytes:
    return server_frame(FIN | BINARY, bytes((channel,)) + data)


def pong(data: bytes) -> object:
    return ("pinged", decode(data)[:2])


def told(
    stream: ExecStream, pieces: list[bytes], *, then_lost: bool = False, owed: Callable[[bytes], object] = pong
) -> list[object]:
    """Return the events in a form that can be compared; outputs that follow each other on a channel are joined."""
    seen: list[object] = []
    for data in pieces:
        seen += [plain(event, owed) for event in stream.feed(memoryview(data))]
    if then_lost:
        seen += [plain(event, owed) for event in stream.lost()]
    joined: list[object] = []
    for event in seen:
        last = joined[-1] if joined else None
        if isinstance(event, tuple) and isinstance(last, tuple) and event[0] == last[0] and "std" in event[0]:
            joined[-1] = (event[0], last[1] + event[1])
        else:
            joined.append(event)
    return joined


def plain(event: streams.Event, owed: Callable[[bytes], object] = pong) -> object:
    if isinstance(event, Output):
        assert event.data, "an empty output"
        return ({STDOUT: "stdout", STDERR: "stderr"}[event.channel], bytes(event.data))
    if isinstance(event, Ended):
        return ("ended", event.status)
    if isinstance(event, Acknowledged):
        return ("acknowledged", event.pid)
    if isinstance(event, Refused):
        return ("refused", event.head.status, event.body)
    if isinstance(event, Owed):
        return owed(event.data)
    return {Opened: "opened", Ponged: "ponged"}[type(event)]


CLOSED = server_frame(FIN | CLOSE, b"\x03\xe8")

SESSIONS: dict[str, tuple[bytes, list[object]]] = {
    "a good one": (
        message(2, ACK + b" 42\n") + message(1, b"out") + message(2, b"err") + message(3, SUCCESS) + CLOSED,
        ["opened", ("acknowledged", 42), ("stdout", b"out"), ("stderr", b"err"), ("ended", SUCCESS)],
    ),
    "channels that are announced by empty messages": (
        message(1, b"") + message(2, b"") + message(2, ACK + b" 1\n") + message(3, b"") + CLOSED,
        ["opened", ("acknowledged", 1), ("ended", None)],
    ),
    "a warning without a line feed before the acknowledgement": (
        message(2, b"sh: no locale") + message(2, ACK + b" 7\nmore"),
        ["opened", ("acknowledged", 7), ("stderr", b"more")],
    ),
    "what begins like the acknowledgement and is none": (
        message(2, ACK[:-1] + b"x\n" + ACK[:10] + ACK + b" 9\n"),
        ["opened", ("acknowledged", 9)],
    ),
    "an acknowledgement with no number, and one with too many digits": (
        message(2, ACK + b" ?\n" + ACK + b" " + b"1\n"),
        ["opened", ("acknowledged", 0), ("stderr", ACK + b" 1\n")],
    ),
    "a message in several frames, with a ping between": (
        server_frame(BINARY, b"")
        + server_frame(0, b"\1on")
        + server_frame(FIN | PING, b"here?")
        + server_frame(FIN, b"e")
        + server_frame(FIN | PONG, b""),
        ["opened", ("stdout", b"on"), ("pinged", (PONG, b"here?")), ("stdout", b"e"), "ponged"],
    ),
    "a channel that the server closes": (
        message(255, b"\1") + message(1, b"x"),
        ["opened", ("stdout", b"x")],
    ),
    "an end without a status": (
        message(1, b"half") + server_frame(FIN | CLOSE, b"\x03\xf3server error"),
        ["opened", ("stdout", b"half"), ("ended", None)],
    ),
    "a status in parts": (
        server_frame(BINARY, b"\3" + SUCCESS[:9]) + server_frame(FIN, SUCCESS[9:]) + CLOSED,
        ["opened", ("ended", SUCCESS)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_in_one_piece_and_byte_by_byte(name: str) -> None:
    data, events = SESSIONS[name]
    for pieces in (lambda whole: [whole], byte_by_byte):
        stream, key = asked(ACK)
        assert told(stream, pieces(switching(key) + data)) == events


@pytest.mark.parametrize("name", SESSIONS)
@given(places=PLACES)
def test_a_session_in_any_pieces(name: str, places: list[int]) -> None:
    data, events = SESSIONS[name]
    stream, key = asked(ACK)
    assert told(stream, cut(switching(key) + data, places)) == events


NOISE = st.binary(max_size=80) | st.sampled_from([ACK[:1], ACK[:5], ACK[:-1], b"mpi-agent mpi-agent ", b"\n"])


@given(
    before=st.lists(NOISE.filter(lambda data: ACK not in data), max_size=5),
    after=st.lists(st.binary(min_size=1, max_size=80), max_size=3),
    pid=st.integers(1, 4_194_304),
    places=PLACES,
)
def test_all_stderr_after_the_acknowledgement_is_handed_on(
    before: list[bytes], after: list[bytes], pid: int, places: list[int]
) -> None:
    noise = b"".join(before)
    if ACK in noise:
        return
    data = b"".join(message(2, part) for part in before) + message(2, ACK + b" %d\n" % pid)
    data += b"".join(message(2, part) for part in after)
    stream, key = asked(ACK)
    events = told(stream, cut(switching(key) + data, places), then_lost=True)
    expected: list[object] = ["opened", ("acknowledged", pid)]
    expected += [("stderr", b"".join(after))] if after else []
    assert events == [*expected, ("ended", None)]
    assert not stream.is_confirmed


@given(
    before=st.lists(st.binary(min_size=1, max_size=20) | st.just(success(ACK)[:7]), max_size=4),
    after=st.binary(max_size=20),
    parts=st.lists(st.integers(1, len(success(ACK)) - 1), max_size=3),
    places=PLACES,
)
def test_the_line_that_confirms_a_success_is_taken_out_of_stderr(
    before: list[bytes], after: bytes, parts: list[int], places: list[int]
) -> None:
    line = [*cut(success(ACK), parts), *([after] if after else [])]
    data = message(2, ACK + b" 4\n") + b"".join(message(2, part) for part in (*before, *line))
    stream, key = asked(ACK)
    events = told(stream, cut(switching(key) + data + message(3, SUCCESS) + CLOSED, places))
    rest = b"".join(before) + after
    expected = ["opened", ("acknowledged", 4), *([("stderr", rest)] if rest else []), ("ended", SUCCESS)]
    assert events == expected
    assert stream.is_confirmed


def test_stderr_that_was_held_back_comes_at_the_end() -> None:
    stream, key = asked(ACK)
    data = switching(key) + message(2, b"sh: mpi-ag")
    assert told(stream, [data], then_lost=True) == ["opened", ("stderr", b"sh: mpi-ag"), ("ended", None)]
    stream, key = asked(ACK)
    whole = switching(key) + message(2, ACK + b" 4") + CLOSED
    assert told(stream, [whole]) == ["opened", ("stderr", ACK + b" 4"), ("ended", None)]


def test_without_an_acknowledgement_to_wait_for_nothing_is_held_back() -> None:
    stream, key = asked(None)
    assert told(stream, [switching(key), message(2, ACK)]) == ["opened", ("stderr", ACK)]


def test_a_status_without_a_close_is_kept_for_the_loss() -> None:
    stream, key = asked()
    stream.feed(memoryview(switching(key) + message(3, SUCCESS)))
    assert stream.has_status
    assert [plain(event) for event in stream.lost()] == [("ended", SUCCESS)]


REFUSALS = [
    (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", ("refused", 403, b"no")),
    (b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", ("refused", 500, b"no")),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ("refused", 200, b"")),
]


@pytest.mark.parametrize(("data", "event"), REFUSALS)
def test_a_refusal_however_it_is_split(data: bytes, event: object) -> None:
    for pieces in ([data], byte_by_byte(data), [data + b"more"]):
        stream, _ = asked()
        assert told(stream, pieces) == [event]
        assert stream.protocol == ""


def test_a_refusal_that_ends_with_the_connection_and_one_that_never_ends() -> None:
    stream, _ = asked()
    assert told(stream, [b"HTTP/1.0 502 Bad\r\n\r\n<html>"], then_lost=True) == [("refused", 502, b"<html>")]
    stream, _ = asked()
    flood = [b"HTTP/1.0 502 Bad\r\n\r\n"] + [b"x" * 1000] * 1000
    (event,) = told(stream, flood)
    assert isinstance(event, tuple)
    assert event[:2] == ("refused", 502)
    assert len(event[2]) < 70_000


def test_nothing_at_all_is_an_end_without_a_status() -> None:
    stream, _ = asked()
    assert told(stream, [b"HTTP/1.1 10"], then_lost=True) == [("ended", None)]


BAD = {
    "not HTTP": b"SSH-2.0-x\r\n\r\n",
    "someone else's accept": switching(b"c29tZW9uZSBlbHNlJ3MhIQ=="),
    "reserved bits": b"\xf2\x00",
    "stdin from the server": message(0, b"x"),
    "a channel that is none": message(9, b"x"),
    "a status without an end": b"".join(message(3, b"x" * 60_000) for _ in range(20)),
    "an acknowledgement without an end": message(2, ACK + b"x" * 1000),
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_a_stream_error(name: str) -> None:
    stream, key = asked(ACK)
    begins = b"" if name in ("not HTTP", "someone else's accept") else switching(key)
    with pytest.raises(StreamError):
        told(stream, [begins, BAD[name]])


@pytest.mark.parametrize("protocol", ["", "v4.channel.k8s.io", "v6.channel.k8s.io"])
def test_a_protocol_that_was_not_offered_is_a_stream_error_that_says_what_to_do(protocol: str) -> None:
    stream, key = asked()
    with pytest.raises(
        StreamError, match=f"protocol {protocol!r} instead of {V5}; the API server must be Kubernetes 1.31 or later"
    ):
        told(stream, [switching(key, protocol)])


@given(
    opens=st.booleans(),
    pieces=st.lists(st.binary(max_size=60) | st.builds(message, st.integers(1, 3), st.binary()), max_size=6),
)
def test_any_bytes_are_events_or_a_stream_error(opens: bool, pieces: list[bytes]) -> None:
    stream, key = asked(ACK)
    with contextlib.suppress(StreamError):
        told(stream, ([switching(key)] if opens else []) + pieces, then_lost=True)


@pytest.mark.parametrize("digits", [9, 10, 5000])
def test_a_process_id_of_any_length(digits: int) -> None:
    stream, key = asked(ACK)
    expected = 10**digits - 1 if digits < 10 else 0
    assert told(stream, [switching(key) + message(2, ACK + b" " + b"9" * digits + b"\n")])[-1] == (
        "acknowledged",
        expected,
    )


@pytest.mark.parametrize("data", [b"", b"typed", bytes(70_000)])
def test_stdin_as_a_server_reads_it(data: bytes) -> None:
    stream, key = asked()
    stream.feed(memoryview(switching(key)))
    assert stream.protocol == V5
    assert decode(stream.stdin(data)) == (BINARY, b"\0" + data, b"")
    assert decode(stream.close_stdin()) == (BINARY, b"\xff\0", b"")


def test_the_request() -> None:
    lines = WebSocketStream(None).request("/path?q", "[::1]:6443", None).decode().split("\r\n")
    assert lines[0] == "GET /path?q HTTP/1.1"
    assert lines[-2:] == ["", ""]
    assert {"Host: [::1]:6443", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"} < set(lines)
    assert f"Sec-WebSocket-Protocol: {V5}" in lines
    assert not any(line.startswith("Authorization") for line in lines)
    lines = WebSocketStream(None).request("/", "api", "Bearer t").decode().split("\r\n")
    assert "Authorization: Bearer t" in lines


@given(command=st.lists(st.binary(max_size=40), max_size=4), container=st.none() | st.text("abc-é&=", min_size=1))
def test_every_byte_of_the_command_arrives(command: list[bytes], container: str | None) -> None:
    parts = urlsplit(streams.target("ns", "pod-0", container, command, stdin=True))
    assert parts.path == "/api/v1/namespaces/ns/pods/pod-0/exec"
    assert parts.fragment == ""
    fields = [each.split("=", 1) for each in parts.query.split("&")]
    assert [unquote_to_bytes(value) for name, value in fields if name == "command"] == command
    rest = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "command"]
    named = [("container", container)] if container else []
    assert rest == [*named, ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    assert all(33 <= ord(char) < 127 for char in parts.query)


def test_stdin_is_asked_for_only_where_there_is_one() -> None:
    assert "stdin" not in streams.target("ns", "pod-0", None, [b"true"], stdin=False)
