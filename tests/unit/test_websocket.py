"""WebSocket frames: the same pieces however the bytes were split, a server's view of ours, and only declared errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splitting import PLACES, byte_by_byte, cut

from rshagent.stream import websocket
from rshagent.stream.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, FrameReader, ProtocolError

FIN = 0x80


def server_frame(first: int, payload: bytes) -> bytes:
    """Frame as a server does: without a mask."""
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2, "big") + payload
    return bytes((first, 127)) + size.to_bytes(8, "big") + payload


def read(pieces: list[bytes]) -> list[tuple[int, bytes]]:
    """Return whole messages, control frames in their places; a message that is not over is left out."""
    reader, messages, parts = FrameReader(), list[tuple[int, bytes]](), list[bytes]()
    is_open = False
    for data in pieces:
        for piece in reader.feed(memoryview(data)):
            if piece.opcode >= CLOSE:
                assert piece.begins
                assert piece.ends
                messages.append((piece.opcode, bytes(piece.payload)))
                continue
            assert piece.begins != is_open
            is_open = not piece.ends
            parts.append(bytes(piece.payload))
            if piece.ends:
                messages.append((piece.opcode, b"".join(parts)))
                parts.clear()
    return messages


def decode(data: bytes) -> tuple[int, bytes, bytes]:
    """Read one of our frames as RFC 6455 §5.2 says a server must: opcode, payload, what follows."""
    assert data[0] & 0xF0 == FIN, "final, and no reserved bits"
    assert data[1] & 0x80, "masked"
    size, at = data[1] & 0x7F, 2
    if size == 126:
        size, at = int.from_bytes(data[2:4], "big"), 4
        assert size >= 126, "the shortest form"
    elif size == 127:
        size, at = int.from_bytes(data[2:10], "big"), 10
        assert size >= 1 << 16, "the shortest form"
    key, masked = data[at : at + 4], data[at + 4 : at + 4 + size]
    assert len(masked) == size
    keys = (key * (size // 4 + 1))[:size]
    plain = (int.from_bytes(masked, "big") ^ int.from_bytes(keys, "big")).to_bytes(size, "big")
    return data[0] & 0x0F, plain, data[at + 4 + size :]


TABLE: list[tuple[bytes, list[tuple[int, bytes]]]] = [
    (server_frame(FIN | BINARY, b"\1hello"), [(BINARY, b"\1hello")]),
    (server_frame(FIN | BINARY, b""), [(BINARY, b"")]),
    (server_frame(FIN | TEXT, b"t"), [(TEXT, b"t")]),
    (server_frame(0x82, b"a" * 125) + server_frame(0x82, b"b" * 126), [(2, b"a" * 125), (2, b"b" * 126)]),
    (server_frame(FIN | BINARY, b"c" * 65535), [(2, b"c" * 65535)]),
    (server_frame(FIN | BINARY, b"d" * 65536), [(2, b"d" * 65536)]),
    (server_frame(BINARY, b"one ") + server_frame(CONTINUATION, b"two ") + server_frame(FIN, b""), [(2, b"one two ")]),
    (server_frame(BINARY, b"") + server_frame(FIN | PING, b"?") + server_frame(FIN, b"x"), [(PING, b"?"), (2, b"x")]),
    (server_frame(0x8A, b"p" * 125) + server_frame(0x88, b"\x03\xe8"), [(PONG, b"p" * 125), (CLOSE, b"\x03\xe8")]),
    (bytes((FIN | BINARY, 127)) + (3).to_bytes(8, "big") + b"abc", [(BINARY, b"abc")]),  # longer than it needs to be
]  # fmt: skip


@pytest.mark.parametrize(("data", "messages"), TABLE)
def test_a_stream_in_one_piece_and_byte_by_byte(data: bytes, messages: list[tuple[int, bytes]]) -> None:
    assert read([data]) == messages
    if len(data) < 1000:
        assert read(byte_by_byte(data)) == messages
    assert read(cut(data, [1, 2, 3, 4, 5, 9, 10, 11, len(data) - 1])) == messages


PAYLOADS = st.binary(max_size=300) | st.integers(0, 70_000).map(lambda size: b"z" * size)
CONTROL = st.tuples(st.sampled_from([PING, PONG]), st.binary(max_size=125))


MESSAGES = st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(PAYLOADS, min_size=1, max_size=3))


@given(messages=st.lists(MESSAGES, max_size=4), controls=st.lists(CONTROL, max_size=6), places=PLACES)
def test_any_messages_in_any_frames_and_any_pieces(
    messages: list[tuple[int, list[bytes]]], controls: list[tuple[int, bytes]], places: list[int]
) -> None:
    stream, expected, waiting = b"", list[tuple[int, bytes]](), list(controls)
    for opcode, parts in messages:
        for index, part in enumerate(parts):
            is_last = index == len(parts) - 1
            stream += server_frame((opcode if index == 0 else CONTINUATION) | (FIN if is_last else 0), part)
            if not is_last and waiting:
                stream += server_frame(FIN | waiting[0][0], waiting[0][1])
                expected.append(waiting.pop(0))
        expected.append((opcode, b"".join(parts)))
    assert read(cut(stream, places)) == expected


FORBIDDEN = {
    "reserved bits": b"\xc2\x00",
    "masked by the server": b"\x82\x81aaaab",
    "unknown data opcode": b"\x83\x00",
    "unknown control opcode": b"\x8b\x00",
    "split control frame": b"\x09\x00",
    "long control frame": b"\x89\x7e\x00\x7e",
    "continues nothing": b"\x80\x00",
    "message begins in a message": b"\x02\x00\x82\x00",
    "negative length": b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
}


@pytest.mark.parametrize("data", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_what_the_rfc_forbids_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read([data])
    with pytest.raises(ProtocolError):
        read(byte_by_byte(data))


@given(
    pieces=st.lists(st.binary(max_size=60) | st.sampled_from([b"\x82\x05", b"\x89\x00", b"\x02\x7e\x00"]), max_size=8)
)
def test_any_bytes_are_frames_or_a_protocol_error_whatever_the_split(pieces: list[bytes]) -> None:
    def outcome(pieces: list[bytes]) -> object:
        try:
            return read(pieces)
        except ProtocolError as error:
            return str(error)

    assert outcome(pieces) == outcome([b"".join(pieces)])


def test_a_large_frame_is_handed_on_as_it_comes() -> None:
    reader = FrameReader()
    header = server_frame(FIN | BINARY, b"x" * 100_000)[:10]
    assert reader.feed(memoryview(header)) == []
    for _ in range(99):
        (piece,) = reader.feed(memoryview(b"x" * 1000))
        assert (len(piece.payload), piece.ends) == (1000, False)
    (piece,) = reader.feed(memoryview(b"x" * 1000))
    assert piece.ends


SIZES = [0, 1, 2, 3, 4, 5, 124, 125, 126, 127, 65534, 65535, 65536, 65537, 131071, 200_001]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", [None, 0, 255])
def test_our_frames_are_what_a_server_reads(size: int, first: int | None) -> None:
    payload = bytes(at % 251 for at in range(size))
    prefix = b"" if first is None else bytes((first,))
    assert decode(websocket.frame(BINARY, payload, first=first)) == (BINARY, prefix + payload, b"")


def test_each_frame_has_a_key_of_its_own() -> None:
    assert len({websocket.frame(BINARY, b"")[2:6] for _ in range(50)}) > 45
