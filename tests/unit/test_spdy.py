"""Exec by SPDY: any split of a server's bytes gives the same events, bad ones StreamError alone.

The server's side is written here after the draft (SPDY/3.1), and one answer is a real API server's (Kubernetes 1.35).
"""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splitting import PLACES, byte_by_byte, cut
from test_streams import ACK, SUCCESS, told

from rshagent.stream.spdy import V4, SpdyStream
from rshagent.stream.streams import ExecStream, StreamError

WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age
allow authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match
if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma
proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
user-agent vary via warning www-authenticate method get status 200|OK version HTTP/1.1 url public set-cookie
keep-alive origin"""
REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non"
    b"-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 F"
    b"orbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb M"
    b"ar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,te"
    b"xt/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javas"
    b"cript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.replace("|", " ").encode() for word in WORDS.split()) + REST

FIN = 1
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
ERROR, STDIN, STDOUT, STDERR = 1, 3, 5, 7
"""The streams of an exec with stdin."""


def switching(protocol: str = V4, upgrade: str = "SPDY/3.1") -> bytes:
    return (
        f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n"
        f"X-Stream-Protocol-Version: {protocol}\r\n\r\n"
    ).encode()


def control(kind: int, body: bytes, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, kind, flags << 24 | len(body)) + body


def data(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(payload)) + payload


def number(value: int) -> bytes:
    return struct.pack(">I", value)


def reply(stream: int, flags: int = 0) -> bytes:
    return control(SYN_REPLY, number(stream) + b"header block, which nobody reads", flags)


def reset(stream: int) -> bytes:
    return control(RST_STREAM, number(stream) + number(5))


OPEN = b"".join(map(reply, (STDERR, ERROR, STDIN, STDOUT)))
ACKNOWLEDGED = data(STDERR, ACK + b" 42\n")
GONE = control(GOAWAY, number(7) + number(0))


def opened(owed: bytes) -> object:
    """What a real server, which inflates all header blocks as one stream, makes of frames of ours."""
    inflate = zlib.decompressobj(zdict=DICTIONARY)
    seen: list[object] = []
    while owed:
        word, flags_and_length = struct.unpack(">II", owed[:8])
        length = flags_and_length & 0xFFFFFF
        body, owed = owed[8 : 8 + length], owed[8 + length :]
        kind = word & 0xFFFF
        assert word >> 16 == 0x8003
        assert len(body) == length
        if kind == PING:
            seen.append(("ping", *struct.unpack(">I", body)))
            continue
        assert kind == SYN_STREAM
        stream, parent, priority, slot = struct.unpack(">IIBB", body[:10])
        assert (parent, priority, slot, flags_and_length >> 24) == (0, 0, 0, 0)
        block = inflate.decompress(body[10:])
        assert not inflate.unconsumed_tail
        count, length = struct.unpack(">II", block[:8])
        name, rest = block[8 : 8 + length], block[8 + length :]
        assert (count, name) == (1, b"streamtype")
        assert struct.unpack(">I", rest[:4])[0] == len(rest) - 4
        seen.append((stream, rest[4:].decode()))
    return tuple(seen)


ASKED = ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr"))

SESSIONS: dict[str, tuple[bytes, list[object]]] = {
    "a good one": (
        OPEN + ACKNOWLEDGED + data(STDOUT, b"out") + data(STDERR, b"err")
        + data(STDERR, b"", FIN) + data(STDOUT, b"more", FIN) + data(ERROR, SUCCESS, FIN),
        ["opened", ("acknowledged", 42), ("stdout", b"out"), ("stderr", b"err"), ("stdout", b"more"),
         ("ended", SUCCESS)],
    ),
    "one that the runtime tears down, and says more than once that it is over": (
        OPEN + ACKNOWLEDGED + data(ERROR, SUCCESS) + b"".join(map(reset, (ERROR, STDIN, STDOUT, STDERR))) + GONE + GONE,
        ["opened", ("acknowledged", 42), ("ended", SUCCESS)],
    ),
    "an end without a status": (
        OPEN + data(STDERR, b"no sh") + GONE,
        ["opened", ("stderr", b"no sh"), ("ended", None)],
    ),
    "a status in parts, and a stdin that the command has closed": (
        OPEN + reset(STDIN) + data(ERROR, SUCCESS[:5]) + data(ERROR, b"") + data(ERROR, SUCCESS[5:]) + GONE,
        ["opened", ("ended", SUCCESS)],
    ),
    "a reply that is the end of its stream": (
        reply(ERROR) + reply(STDIN, FIN) + reply(STDOUT, FIN) + reply(STDERR) + ACKNOWLEDGED + data(STDERR, b"", FIN)
        + data(ERROR, SUCCESS, FIN),
        ["opened", ("acknowledged", 42), ("ended", SUCCESS)],
    ),
    "pings of both sides, and frames that mean nothing to an exec": (
        control(SETTINGS, number(0)) + OPEN + control(PING, number(2)) + control(WINDOW_UPDATE, number(5) + number(9))
        + control(HEADERS, number(5) + b"?") + control(PING, number(1)) + control(13, b"") + reset(99) + data(9, b"", 1)
        + data(STDERR, ACK + b" 1\nx"),
        ["opened", (("ping", 2),), "ponged", ("acknowledged", 1), ("stderr", b"x")],
    ),
}  # fmt: skip


def asked(*, stdin: bool = True) -> SpdyStream:
    return SpdyStream(ACK, stdin=stdin)


def heard(stream: ExecStream, pieces: list[bytes], *, then_lost: bool = False) -> list[object]:
    return told(stream, pieces, then_lost=then_lost, owed=opened)


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_in_one_piece_and_byte_by_byte(name: str) -> None:
    whole, events = SESSIONS[name]
    for pieces in (lambda whole: [whole], byte_by_byte):
        assert heard(asked(), pieces(switching() + whole)) == [ASKED, *events]


@pytest.mark.parametrize("name", SESSIONS)
@given(places=PLACES)
def test_a_session_in_any_pieces(name: str, places: list[int]) -> None:
    whole, events = SESSIONS[name]
    assert heard(asked(), cut(switching() + whole, places)) == [ASKED, *events]


RECORDED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol"
    b"-Version: v4.channel.k8s.io\r\n\r\n\x80\x03\x00\x02\x00\x00\x00\x14\x00\x00\x00\x07x\xf9\xe3\xc6"
    b"\xa7\xc2b```\x00\x00\x00\x00\xff\xff\x80\x03\x00\x02\x00\x00\x00\x0c\x00\x00\x00\x01\x02a\x00\x00"
    b"\x00\x00\xff\xff\x80\x03\x00\x02\x00\x00\x00\x0c\x00\x00\x00\x03\x02a\x00\x00\x00\x00\xff\xff\x80"
    b"\x03\x00\x02\x00\x00\x00\x0c\x00\x00\x00\x05\x02a\x00\x00\x00\x00\xff\xff\x00\x00\x00\x07\x00\x00"
    b"\x00 mpi-agent af37d8f590bb444b 4044\n\x00\x00\x00\x05\x00\x00\x00\x06typed\n\x00\x00\x00\x07\x00"
    b"\x00\x00\x05oops\n\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x07\x01\x00\x00"
    b'\x00\x00\x00\x00\x05\x01\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"{"metadata":{},"status":"Success'
    b'"}\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x05\x80\x03\x00\x03\x00\x00\x00'
    b"\x08\x00\x00\x00\x03\x00\x00\x00\x05\x80\x03\x00\x07\x00\x00\x00\x08\x00\x00\x00\x07\x00\x00\x00"
    b"\x00"
)
"""`cat; echo oops >&2; sleep 0.5`, with a line of stdin and a ping."""


@given(places=PLACES)
def test_what_a_real_api_server_sent(places: list[int]) -> None:
    stream = SpdyStream(b"mpi-agent af37d8f590bb444b", stdin=True)
    assert heard(stream, cut(RECORDED, places)) == [
        ASKED,
        "opened",
        ("acknowledged", 4044),
        ("stdout", b"typed\n"),
        ("stderr", b"oops\n"),
        "ponged",
        ("ended", SUCCESS),
    ]


def test_without_stdin_there_is_no_channel_for_it() -> None:
    stream = asked(stdin=False)
    whole = reply(1) + reply(3) + reply(5) + data(3, b"out", FIN) + data(5, ACK + b" 4\n", FIN) + data(1, SUCCESS, FIN)
    assert heard(stream, [switching() + whole]) == [
        ((1, "error"), (3, "stdout"), (5, "stderr")),
        "opened",
        ("stdout", b"out"),
        ("acknowledged", 4),
        ("ended", SUCCESS),
    ]


def test_it_is_not_open_before_every_channel_is() -> None:
    stream = asked()
    assert heard(stream, [switching(), *map(reply, (ERROR, STDIN, STDOUT, STDOUT))]) == [ASKED]
    assert stream.protocol == V4
    assert heard(stream, [reply(STDERR)]) == ["opened"]
    assert heard(stream, [reply(STDERR)]) == []


def test_a_loss_and_a_refusal() -> None:
    stream = asked()
    assert heard(stream, [switching() + OPEN + data(ERROR, SUCCESS)])[-1] == "opened"
    assert stream.has_status
    assert heard(stream, [], then_lost=True) == [("ended", SUCCESS)]
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
    assert heard(asked(), byte_by_byte(refusal)) == [("refused", 403, b"no")]


BAD = {
    "another protocol": switching("v3.channel.k8s.io"),
    "no protocol": switching(""),
    "another upgrade": switching(upgrade="websocket"),
    "another version": switching() + control(PING, number(2), version=2),
    "a stream of the server's": switching() + control(SYN_STREAM, bytes(10)),
    "a control frame without an end": switching() + struct.pack(">HHI", 0x8003, SETTINGS, 70_000),
    "a refused channel": switching() + reset(STDOUT),
    "output on stdin": switching() + OPEN + data(STDIN, b"x"),
    "output on a channel that is none": switching() + OPEN + data(9, b"x"),
    "a status without an end": switching() + OPEN + data(ERROR, b"x" * 60_000) * 20,
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_a_stream_error(name: str) -> None:
    for pieces in ([BAD[name]], cut(BAD[name], range(0, len(BAD[name]), 7))):
        with pytest.raises(StreamError):
            heard(asked(), pieces)


FRAMES = st.one_of(
    st.builds(data, st.integers(0, 9), st.binary(max_size=20), st.integers(0, 255)),
    st.builds(control, st.integers(0, 12), st.binary(max_size=20), st.integers(0, 255)),
    st.binary(max_size=30),
)


@given(opens=st.booleans(), frames=st.lists(FRAMES, max_size=8))
def test_any_bytes_are_events_or_a_stream_error(opens: bool, frames: list[bytes]) -> None:
    stream = asked()
    with contextlib.suppress(StreamError):
        for piece in [switching() + (OPEN if opens else b""), *frames]:
            stream.feed(memoryview(piece))
    stream.lost()


@pytest.mark.parametrize("size", [0, 1, 70_000, (1 << 24) - 1, (1 << 24) + 5])
def test_stdin_as_a_server_reads_it(size: int) -> None:
    whole = memoryview(asked().stdin(bytes(size)))
    sizes = []
    while whole:
        stream, flags_and_length = struct.unpack(">II", whole[:8])
        assert (stream, flags_and_length >> 24) == (STDIN, 0)
        sizes.append(flags_and_length & 0xFFFFFF)
        assert len(whole) >= 8 + sizes[-1]
        whole = whole[8 + sizes[-1] :]
    assert sum(sizes) == size


def test_the_end_of_stdin_and_pings() -> None:
    stream = asked()
    assert stream.close_stdin() == data(STDIN, b"", FIN)
    assert [opened(stream.ping()) for _ in range(3)] == [(("ping", 1),), (("ping", 3),), (("ping", 5),)]


def test_the_request() -> None:
    lines = asked().request("/path?q", "[::1]:6443", "Bearer t").decode().split("\r\n")
    assert lines[0] == "POST /path?q HTTP/1.1"
    assert lines[-2:] == ["", ""]
    assert {"Host: [::1]:6443", "Upgrade: SPDY/3.1", "Connection: Upgrade", "Content-Length: 0"} < set(lines)
    assert {f"X-Stream-Protocol-Version: {V4}", "Authorization: Bearer t"} < set(lines)
