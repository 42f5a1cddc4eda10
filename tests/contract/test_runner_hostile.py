"""What a process in the pod can send mpi-runner: it gets FAIL or is closed, and other programs run as ever."""

from __future__ import annotations

import os
import resource
import select
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest
from app_container import FIXTURES, NULL, Container, Peer, in_hasty_build, in_static_build
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rshagent.native import protocol
from rshagent.native.protocol import CHECK, ENDING, EXIT, FAIL, OK, RESUME, SIGNAL, START, TICKET, encode
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

programs, sockets, app = FIXTURES

TRUE = protocol.Start([b"true"], {}, b"/", b"").pack()
NO_VALUE = struct.pack(">II", 1, 1) + b"true\0NAME\0/\0\0"


@pytest.fixture(autouse=True)
def _still_serves(app: Container) -> Iterator[None]:
    """Whatever a test sends: a program that ran before ends as ever, the next one runs, and nothing stays open."""
    app.until_idle()  # who asked whether it listens is gone
    before = app.open_files()
    other = app.spawn("sh", "-c", "echo up; read line; exit 4", stdin=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"up\n"
    yield
    assert app.process.poll() is None
    assert app.run("sh", "-c", "exit 3")[0] == 3
    other.communicate(b"\n", 60)
    assert other.returncode == 4
    app.until_idle()
    assert app.open_files() == before
    assert app.log.read_text() == ""


REFUSED = {
    "another magic": b"HTTP/1.1 200",
    "another version": b"MPIA\x02" + encode(START, TRUE)[5:],
    "reserved bytes": encode(START, TRUE)[:6] + b"\0\1" + encode(START, TRUE)[8:],
    "an unknown kind": encode(CHECK)[:5] + b"\x63" + encode(CHECK)[6:],
    "a huge payload": b"MPIA\x01\x01\0\0" + struct.pack(">I", protocol.PAYLOAD_MAX + 1),
    "the largest length": b"MPIA\x01\x01\0\0\xff\xff\xff\xff",
    **{f"kind {kind}": encode(kind, b"\0\0\0\x0f") for kind in (SIGNAL, ENDING, TICKET, EXIT, FAIL, OK)},
    "check with a payload": encode(CHECK, b"x"),
    "no counts": encode(START, b""),
    "half of the counts": encode(START, b"\0\0\0\1"),
    "only counts": encode(START, struct.pack(">II", 1, 0)),
    "no argument": encode(START, struct.pack(">II", 0, 0) + b"/\0\0"),
    "too few strings": encode(START, struct.pack(">II", 2, 0) + b"true\0/\0\0"),
    "too many strings": encode(START, TRUE + b"more\0"),
    "no last NUL": encode(START, TRUE[:-1] + b"x"),
    "counts that wrap": encode(START, struct.pack(">II", 0xFFFFFFFF, 2) + b"true\0/\0\0"),
    "counts of all bits": encode(START, b"\xff" * 8 + b"true\0/\0\0"),
    "65,537 strings": encode(START, struct.pack(">II", 65536, 1) + b"\0" * 65536 + b"A=\0\0\0"),
    "a variable without a value": encode(START, NO_VALUE),
    "a resume": encode(RESUME, b""),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_not_a_start_is_refused(app: Container, data: bytes) -> None:
    with Peer(app.socket) as peer:
        peer.push(data)
        code, text = peer.answer()
        assert code == 255
        assert text
        assert peer.read() is None


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 100])
def test_exactly_three_files_must_come(app: Container, count: int) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"true", fds=(NULL,) * count)
        code, text = peer.answer()
    assert code == 255
    assert "stdin, stdout and stderr" in text


def test_files_with_a_later_byte_are_refused(app: Container) -> None:
    data = encode(START, TRUE)
    for first in (6, 12, 14):
        with Peer(app.socket) as peer:
            peer.push(data[:first])
            peer.push(data[first:])
            assert peer.answer()[0] == 255


def test_files_with_a_signal_are_closed(app: Container) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"sleep", b"1000")
        assert peer.kind() == TICKET
        reader, writer = os.pipe()
        peer.push(encode(SIGNAL, struct.pack(">I", 10)), (writer,) * 3)
        os.close(writer)
        assert peer.answer()[0] == 138
        with os.fdopen(reader, "rb") as closed:
            assert closed.read() == b""


@pytest.mark.parametrize("number", [0, 65, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000001])
def test_a_signal_of_no_possible_number_ends_its_own_program_only(app: Container, number: int) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"sleep", b"1000")
        peer.push(encode(SIGNAL, struct.pack(">I", number)), ())
        assert peer.answer()[0] == 255


@pytest.mark.parametrize(
    "more", [encode(START, TRUE), encode(RESUME), encode(CHECK), b"x" * 100_000, encode(SIGNAL, b"")]
)
def test_anything_but_signals_ends_its_own_program_only(app: Container, more: bytes) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"sleep", b"1000")
        assert peer.kind() == TICKET
        peer.push(more, ())
        assert peer.answer()[0] == 255


def test_a_flood_of_signals(app: Container) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"sh", b"-c", b"trap '' USR1; echo up; exec sleep 1000")
        peer.push(encode(SIGNAL, struct.pack(">I", 28)) * 100_000 + encode(SIGNAL, struct.pack(">I", 9)), ())
        assert peer.answer() == (137, "")


def test_any_split_of_a_start_and_a_signal(app: Container) -> None:
    data = encode(START, protocol.Start([b"sleep", b"1000"], {b"A": b"b"}, b"/", b"").pack())
    signal = encode(SIGNAL, struct.pack(">I", 15))
    with Peer(app.socket) as peer:
        peer.push(data[:1])
        for byte in data[1:] + signal:
            peer.push(bytes([byte]), ())
        assert peer.answer() == (143, "")


@in_hasty_build
def test_who_stops_in_the_middle_is_closed(app: Container) -> None:
    peers = [Peer(app.socket) for _ in range(4)]
    parts = (b"", b"MPIA\x01", encode(START, TRUE)[:-1], encode(START, bytes(1 << 20))[:5000])
    for peer, data in zip(peers, parts, strict=True):
        if data:
            peer.push(data)
    for peer in peers:
        with peer:
            code, text = peer.answer()
            assert (code, text) == (255, "the first message did not come within 1 s")


def test_a_flood_of_connections(app: Container) -> None:
    peers = []
    for _ in range(300):
        peers.append(Peer(app.socket))
        peers[-1].push(encode(START, bytes(100_000))[:1000])
    assert app.run("sh", "-c", "exit 3")[0] == 3
    for peer in peers:
        peer.close()


@in_static_build  # a sanitized process has 35 MB of its own
def test_one_program_more_than_there_can_be_waits(app: Container) -> None:
    most = 1024
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    reader, writer = os.pipe()
    peers = [Peer(app.socket) for _ in range(most - 1)]  # and one of the fixture
    try:
        for peer in peers:
            peer.start(b"cat", fds=(reader, NULL, NULL))
        until(lambda: len(app.below()) == 2 * most, "each has a session and a program")
        with Peer(app.socket) as waiting:
            waiting.start(b"true")
            answers = select.poll()
            answers.register(waiting.socket, select.POLLIN)
            assert not answers.poll(500), "it has not been taken"  # a free runner answers within a millisecond
            peers.pop().close()
            assert waiting.answer() == (0, "")
    finally:
        os.close(reader)
        os.close(writer)  # all end
        for peer in peers:
            assert peer.answer() == (0, "")
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_without_a_descriptor_it_sleeps_until_there_is_one(app: Container) -> None:
    pid = app.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (app.open_files(), limits[1]))
    try:
        with Peer(app.socket) as peer:
            peer.send(encode(CHECK))
            before = _sleeps(pid)
            until(lambda: _sleeps(pid) > before + 3, "it waits again and again")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            assert peer.kind() == OK
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def _sleeps(pid: int) -> int:
    """How often a process gave up the processor by itself."""
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("voluntary")).split()[1])


def test_answers_that_nobody_reads(app: Container) -> None:
    for _ in range(50):
        with Peer(app.socket) as peer:
            peer.start(b"no-such-program")
        with Peer(app.socket) as peer:
            peer.start(b"true")


def test_a_reader_that_stops_holds_up_its_own_program_only(app: Container) -> None:
    reader, writer = os.pipe()
    with Peer(app.socket) as peer:
        peer.start(b"sh", b"-c", b"while :; do echo yes; done", fds=(NULL, writer, NULL))
        os.close(writer)
        assert peer.kind() == TICKET
        assert select.select([reader], [], [], 60)[0]
        assert app.run("sh", "-c", "exit 5")[0] == 5
    app_end = os.fdopen(reader, "rb")
    app_end.close()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_any_bytes(app: Container, data: st.DataObject) -> None:
    kind = data.draw(st.integers(0, 30))
    payload = data.draw(st.one_of(st.binary(max_size=64), st.binary(max_size=40).map(lambda more: TRUE[:8] + more)))
    message = data.draw(st.one_of(st.binary(min_size=1, max_size=40), st.just(encode(kind, payload))))
    flips = data.draw(st.lists(st.tuples(st.integers(0, len(message) - 1), st.integers(0, 255)), max_size=2))
    broken = bytearray(message)
    for at, byte in flips:
        broken[at] = byte
    with Peer(app.socket) as peer:
        peer.push(bytes(broken), (NULL,) * data.draw(st.integers(0, 4)))
        peer.socket.shutdown(1)  # so that nobody waits for the rest
        peer.until_closed()
    assert app.process.poll() is None


def test_a_name_can_t_forge_a_line(app: Container) -> None:
    code, _, err = app.run("no\nsuch\x1b[2J")
    assert code == 127
    assert err.count("\n") == 1
    assert "\x1b" not in err
    with Peer(app.socket) as peer:
        peer.start(b"x" * 1_000_000)
        code, text = peer.answer()
    assert code == 127
    assert len(text) < 1024
