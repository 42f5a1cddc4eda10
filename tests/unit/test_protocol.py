"""Messages between client and hub: bytes as docs/protocol.md has them, split in any way, and garbage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rshagent.native import protocol
from rshagent.native.protocol import Inbox, Message, ProtocolError, Start

TO_HUB = (protocol.START, protocol.RESUME, protocol.SIGNAL, protocol.CHECK)
TO_CLIENT = (protocol.TICKET, protocol.EXIT, protocol.LOCAL, protocol.FAIL, protocol.OK)

WIRE = {
    "exit 3": (protocol.exit_message(3), b"MPIA\x01\x11\0\0\0\0\0\x04\0\0\0\x03"),
    "fail": (protocol.fail_message(255, "no worker"), b"MPIA\x01\x13\0\0\0\0\0\x0d\0\0\0\xffno worker"),
    "fail in one line": (protocol.fail_message(1, " a\n\tb  c\r\n"), b"MPIA\x01\x13\0\0\0\0\0\x09\0\0\0\x01a b c"),
    "fail of odd bytes": (protocol.fail_message(1, "\udcff\0é"), b"MPIA\x01\x13\0\0\0\0\0\x07\0\0\0\x01\xff\xc3\xa9"),
    "local": (protocol.local_message(b"a b", null_stdin=False), b"MPIA\x01\x12\0\0\0\0\0\x07\0\0\0\0a b"),
    "local, no stdin": (protocol.local_message(b"", null_stdin=True), b"MPIA\x01\x12\0\0\0\0\0\x04\0\0\0\x01"),
    "ticket": (protocol.encode(protocol.TICKET, b"\0x"), b"MPIA\x01\x10\0\0\0\0\0\x02\0x"),
    "check": (protocol.encode(protocol.CHECK), b"MPIA\x01\x04\0\0\0\0\0\0"),
    "ok": (protocol.encode(protocol.OK), b"MPIA\x01\x14\0\0\0\0\0\0"),
    "signal": (protocol.encode(protocol.SIGNAL, b"\0\0\0\x0f"), b"MPIA\x01\x03\0\0\0\0\0\x04\0\0\0\x0f"),
    "start": (
        protocol.encode(protocol.START, Start([b"a", b""], {b"K": b"v=w"}, b"/", b"1-2").pack()),
        b"MPIA\x01\x01\0\0\0\0\0\x17\0\0\0\x02\0\0\0\x01a\0\0K=v=w\0/\x001-2\0",
    ),
}

payloads = st.binary(max_size=60)
messages = st.tuples(st.sampled_from(TO_HUB + TO_CLIENT), payloads)
strings = st.binary(max_size=20).filter(lambda string: b"\0" not in string)
names = strings.filter(lambda string: b"=" not in string)
starts = st.builds(Start, st.lists(strings, min_size=1, max_size=8), st.dictionaries(names, strings), strings, strings)


def taken(inbox: Inbox) -> list[Message]:
    messages = []
    while (message := inbox.next()) is not None:
        messages.append(message)
    return messages


@pytest.mark.parametrize(("encoded", "expected"), WIRE.values(), ids=WIRE)
def test_bytes_on_the_wire(encoded: bytes, expected: bytes) -> None:
    assert encoded == expected
    inbox = Inbox()
    inbox.feed(expected, [])
    message = inbox.next()
    assert message is not None
    assert protocol.encode(message.kind, message.payload) == expected
    assert inbox.next() is None


@given(st.lists(messages, max_size=8), st.data())
def test_any_split_gives_the_same_messages(sent: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(protocol.encode(kind, payload) for kind, payload in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    inbox, received = Inbox(), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        inbox.feed(stream[begin:end], [])
        received += taken(inbox)
    assert [(message.kind, message.payload) for message in received] == sent


@given(messages, st.binary(max_size=40), st.data())
def test_garbage_is_a_protocol_error_and_nothing_else(
    first: tuple[int, bytes], garbage: bytes, data: st.DataObject
) -> None:
    """Bytes of a message are overwritten or cut at any place."""
    good = protocol.encode(*first)
    at = data.draw(st.integers(0, len(good)))
    bad = good[:at] + garbage + good[at + data.draw(st.integers(0, len(good))) :]
    inbox = Inbox()
    for byte in bad:
        inbox.feed(bytes([byte]), [])
        with contextlib.suppress(ProtocolError):
            for message in taken(inbox):
                assert len(message.payload) <= protocol.PAYLOAD_MAX
                with contextlib.suppress(ProtocolError):
                    message.number()
                with contextlib.suppress(ProtocolError):
                    Start.unpack(message.payload)


@given(st.binary(max_size=100))
def test_what_does_not_begin_as_a_message_is_refused(data: bytes) -> None:
    inbox = Inbox()
    inbox.feed(data, [])
    known = data[:5]
    if known != b"MPIA\x01"[: len(known)]:
        with pytest.raises(ProtocolError):
            inbox.next()
    elif len(data) < 12:
        assert inbox.next() is None


BAD_HEADERS = {
    "magic": b"MPIB",
    "magic, first byte": b"\0",
    "version 0": b"MPIA\0",
    "version 2": b"MPIA\2",
    "kind 0": b"MPIA\1\0\0\0\0\0\0\0",
    "kind 6": b"MPIA\1\6\0\0\0\0\0\0",
    "kind 255": b"MPIA\1\xff\0\0\0\0\0\0",
    "reserved": b"MPIA\1\1\0\1\0\0\0\0",
    "length": b"MPIA\1\1\0\0\0\x40\0\1",
    "largest length": b"MPIA\1\1\0\0\xff\xff\xff\xff",
    "a ticket's length": b"MPIA\1\2\0\0\0\0\x10\1",
    "a signal's length": b"MPIA\1\3\0\0\0\x40\0\0",
    "a check's length": b"MPIA\1\4\0\0\0\x40\0\0",
    "an ending's length": b"MPIA\1\5\0\0\0\x40\0\0",
}


@pytest.mark.parametrize("data", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_bad_header_is_refused_before_its_payload_comes(data: bytes) -> None:
    inbox = Inbox()
    inbox.feed(data, [])
    with pytest.raises(ProtocolError):
        inbox.next()


def test_the_longest_payload() -> None:
    longest = bytes(protocol.PAYLOAD_MAX)
    inbox = Inbox()
    inbox.feed(protocol.encode(protocol.START, longest), [])
    message = inbox.next()
    assert message is not None
    assert message.payload == longest
    with pytest.raises(ValueError, match="at most"):
        protocol.encode(protocol.START, longest + b"x")


def test_files_belong_to_the_first_message_that_is_whole_after_they_came() -> None:
    opening = protocol.encode(protocol.RESUME, b"ticket")
    inbox = Inbox()
    inbox.feed(opening[:1], [7, 8, 9])
    assert inbox.next() is None
    inbox.feed(opening[1:] + protocol.encode(protocol.CHECK), [])
    assert [message.fds for message in taken(inbox)] == [[7, 8, 9], []]
    inbox.feed(opening[:5], [3])
    assert inbox.next() is None
    assert inbox.take_fds() == [3]
    assert inbox.take_fds() == []


@given(starts)
def test_start_survives_the_wire(start: Start) -> None:
    read = Start.unpack(start.pack())
    assert (read.argv, read.env, read.cwd, read.instance) == (start.argv, start.env, start.cwd, start.instance)


BAD_STARTS = {
    "empty": b"",
    "cut in the counts": b"\0\0\0\1\0\0\0",
    "no argv": b"\0\0\0\0\0\0\0\0/\x001\0",
    "a string too few": b"\0\0\0\1\0\0\0\0a\0/\0",
    "a string too many": b"\0\0\0\1\0\0\0\0a\0/\x001\0x\0",
    "no NUL at the end": b"\0\0\0\1\0\0\0\0a\0/\x001",
    "bytes after the end": b"\0\0\0\1\0\0\0\0a\0/\x001\0x",
    "counts beyond any payload": b"\xff\xff\xff\xff\xff\xff\xff\xffa\0/\x001\0",
    "a variable without a value": b"\0\0\0\1\0\0\0\1a\0K\0/\x001\0",
    "more strings than can be objects": b"\0\x01\0\1\0\0\0\0" + bytes(65539),
}


@pytest.mark.parametrize("payload", BAD_STARTS.values(), ids=BAD_STARTS)
def test_a_start_that_does_not_hold_what_it_counts(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        Start.unpack(payload)


def test_of_two_variables_of_one_name_the_first_counts() -> None:
    assert Start.unpack(b"\0\0\0\1\0\0\0\2a\0K=1\0K=2\0/\x001\0").env == {b"K": b"1"}


@pytest.mark.parametrize("start", [Start([b"a\0"], {}, b"", b""), Start([b"a"], {b"K": b"\0"}, b"", b"")])
def test_a_nul_cant_be_sent(start: Start) -> None:
    with pytest.raises(ValueError, match="NUL"):
        start.pack()
    with pytest.raises(ValueError, match="NUL"):
        protocol.local_message(b"a\0b", null_stdin=False)


@pytest.mark.parametrize("payload", [b"", b"\0\0\0"])
def test_a_message_without_its_number(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        Message(protocol.SIGNAL, payload).number()


@pytest.mark.parametrize("number", [0, 65, 2**32 - 1])
def test_a_number_that_none_of_its_kind_can_be(number: int) -> None:
    with pytest.raises(ProtocolError):
        Message(protocol.SIGNAL, number.to_bytes(4, "big")).number_to(protocol.SIGNAL_MAX)


def test_a_line_for_people_has_an_end() -> None:
    assert len(protocol.fail_message(255, "\udcff" * (1 << 20))) <= 12 + 4 + 4096


def test_a_session_takes_short_messages_alone() -> None:
    inbox = Inbox()
    inbox.most = protocol.TICKET_MAX
    inbox.feed(b"MPIA\1\1\0\0\0\0\x10\1", [])
    with pytest.raises(ProtocolError):
        inbox.next()
