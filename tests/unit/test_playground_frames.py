"""The stand-in's framing: any split of the input gives the same messages; every size of output is framed right."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.playground import frames

MASK = b"\x01\xfe\x80\x7f"


def xor(mask: bytes, data: bytes) -> bytes:
    return bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))


def masked(first: int, payload: bytes, mask: bytes = MASK) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 65536:
        head = bytes((first, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, 0xFF)) + size.to_bytes(8, "big")
    return head + mask + xor(mask, payload)


CASES = [
    (masked(0x82, b"\0hello"), [(frames.BINARY, b"\0hello")]),
    (masked(0x82, b""), [(frames.BINARY, b"")]),
    (masked(0x89, b"are you there"), [(frames.PING, b"are you there")]),
    (masked(0x82, b"a" * 125) + masked(0x82, b"b" * 126), [(2, b"a" * 125), (2, b"b" * 126)]),
    (masked(0x82, b"c" * 65535) + masked(0x82, b"d" * 65536), [(2, b"c" * 65535), (2, b"d" * 65536)]),
    (masked(0x02, b"\0one ") + masked(0x80, b"two"), [(2, b"\0one two")]),
    (masked(0x02, b"\0x") + masked(0x8A, b"") + masked(0x80, b"y"), [(frames.PONG, b""), (2, b"\0xy")]),
    (masked(0x88, b"\x03\xe8"), [(frames.CLOSE, b"\x03\xe8")]),
]


@pytest.mark.parametrize(("data", "messages"), CASES)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000, 1 << 20])
def test_each_split_gives_the_same_messages(data: bytes, messages: list[tuple[int, bytes]], step: int) -> None:
    if step == 1 and len(data) > 1000:
        step = 997
    reader = frames.FrameReader()
    got: list[tuple[int, bytes]] = []
    for start in range(0, len(data), step):
        got += [(opcode, bytes(payload)) for opcode, payload in reader.feed(data[start : start + step])]
    assert got == messages


@given(st.lists(st.tuples(st.binary(max_size=700), st.binary(min_size=4, max_size=4)), max_size=6), st.data())
def test_any_messages_in_any_pieces(messages: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(masked(0x82, payload, mask) for payload, mask in messages)
    reader = frames.FrameReader()
    got: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += [bytes(payload) for _opcode, payload in reader.feed(stream[:size])]
        stream = stream[size:]
    assert got == [payload for payload, _mask in messages]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x82\x03abc", "must be masked"),
        (b"\xc2\x83", "reserved bits"),
        (b"\x83\x83", "unknown opcode 3"),
        (masked(0x09, b"x"), "control frame in pieces"),
        (masked(0x89, b"x" * 126), "control frame in pieces or too long"),
        (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"abcd", "a frame of 1099511627776 bytes"),
    ],
)
def test_what_is_no_frame_is_told(data: bytes, why: str) -> None:
    with pytest.raises(frames.FramingError, match=why):
        frames.FrameReader().feed(data)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 511, 512, 513, 514, 4099, 32769])
def test_both_ways_of_unmasking_are_exclusive_or(size: int) -> None:
    data = os.urandom(size)
    assert frames.unmask(MASK, bytearray(data)) == xor(MASK, data)
    assert frames.unmask_by_tables(MASK, bytearray(data)) == xor(MASK, data)


def unframed(data: bytes) -> list[tuple[int, bytes]]:
    """Server frames taken apart: (channel, data)."""
    found = []
    while data:
        assert data[0] == 0x82
        wide = {126: 2, 127: 8}.get(data[1], 0)
        size = int.from_bytes(data[2 : 2 + wide], "big") if wide else data[1]
        assert size < 126 if not wide else size >= 126, "the shortest form of the length"
        found.append((data[2 + wide], data[3 + wide : 2 + wide + size]))
        data = data[2 + wide + size :]
    return found


@pytest.mark.parametrize("size", [1, 124, 125, 126, 32767, 32768, 32769, 32768 + 124, 32768 + 125, 65535, 65536])
def test_output_is_read_into_frames(size: int) -> None:
    framer = frames.OutputFramer()
    reader, writer = os.pipe()
    try:
        payload = os.urandom(size)
        os.write(writer, payload)
        count, data = framer.read(reader, frames.STDERR)
        assert count == size
        pieces = unframed(bytes(data))
        assert {channel for channel, _piece in pieces} == {frames.STDERR}
        assert b"".join(piece for _channel, piece in pieces) == payload
        os.close(writer)
        writer = -1
        assert framer.read(reader, frames.STDERR)[0] == 0
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def test_frames_as_the_rfc_has_them() -> None:
    assert frames.accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455 section 1.3
    assert frames.close_frame() == b"\x88\x02\x03\xe8"
    assert frames.channel_frame(3, b"x" * 200)[:5] == b"\x82\x7e\x00\xc9\x03"
    assert frames.frame(2, b"y" * 70000)[:10] == b"\x82\x7f" + (70000).to_bytes(8, "big")
