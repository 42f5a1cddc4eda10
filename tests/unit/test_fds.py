"""Borrowed descriptors: real pipes, sockets, terminals, files and devices; never waited for, never changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import socket
import threading
import tty
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_api import settle, until

from rshagent import fds
from rshagent.fds import Reader, Writer
from rshagent.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)  # a call that waits would wait for ever

MIB = 1 << 20


class Channel:
    """What we write to or read from (`ours`), and its other end (`theirs`), which a test may close."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        if kind == "socket":
            ours, theirs = socket.socketpair()
            self.ours, self.theirs = ours.detach(), theirs.detach()
        elif kind in ("terminal", "raw terminal"):
            self.theirs, self.ours = os.openpty()
            if kind == "raw terminal":
                tty.setraw(self.ours)
        else:
            self.theirs, self.ours = os.pipe()

    def reading(self) -> Channel:
        """Turn a pipe round: ours is the end that reads."""
        if self.kind == "pipe":
            self.ours, self.theirs = self.theirs, self.ours
        return self

    def hang_up(self) -> None:
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def close(self) -> None:
        self.hang_up()
        with contextlib.suppress(OSError):  # a Writer or Reader may own it
            os.close(self.ours)


@pytest.fixture(params=["pipe", "socket", "raw terminal"])
def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    channel = Channel(request.param)
    yield channel
    channel.close()


def is_open(fd: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{fd}")


def is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def take(fd: int) -> bytes:
    """Return what has come."""
    data = b""
    with contextlib.suppress(OSError):  # a terminal that was closed
        while is_readable(fd) and (more := os.read(fd, 65536)):
            data += more
    return data


def fill(fd: int, kind: str, pattern: bytes = b"x") -> int:
    """Write until there is no room; return how much that was."""
    total = 0
    while written := fds.write_some(fd, kind, memoryview(pattern * 5000)):
        total += written
    return total


def test_kinds(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    paths = {"/dev/null": "file", "/dev/full": "file", "/dev/zero": "file", "/dev/random": "terminal", __file__: "file"}
    for path, kind in paths.items():
        fd = os.open(path, os.O_RDONLY)
        assert fds.kind_of(fd) == kind, path
        assert fds.is_null(fd) == (path == "/dev/null"), path
        os.close(fd)
    fifo = os.open(tmp_path / "fifo", os.O_RDWR)
    assert fds.kind_of(fifo) == "pipe"
    os.close(fifo)
    for name, kind in (("pipe", "pipe"), ("socket", "socket"), ("terminal", "terminal")):
        channel = Channel(name)
        assert fds.kind_of(channel.ours) == kind
        assert not fds.is_null(channel.ours)
        channel.close()


def test_reading_takes_what_is_there_and_waits_for_nothing(channel: Channel) -> None:
    channel.reading()
    kind = fds.kind_of(channel.ours)
    before = fcntl.fcntl(channel.ours, fcntl.F_GETFL)
    assert fds.read_some(channel.ours, kind) is None
    os.write(channel.theirs, b"typed")
    assert fds.read_some(channel.ours, kind) == b"typed"
    assert fds.read_some(channel.ours, kind) is None
    assert fcntl.fcntl(channel.ours, fcntl.F_GETFL) == before
    assert not before & os.O_NONBLOCK
    channel.hang_up()
    if channel.kind == "raw terminal":
        with contextlib.suppress(OSError):  # EIO, or an end, by the kernel's version
            assert fds.read_some(channel.ours, kind) == b""
    else:
        assert fds.read_some(channel.ours, kind) == b""


def test_writing_takes_what_fits_and_waits_for_nothing(channel: Channel) -> None:
    kind = fds.kind_of(channel.ours)
    before = fcntl.fcntl(channel.ours, fcntl.F_GETFL)
    total = fill(channel.ours, kind)
    assert total > 1000
    assert fds.write_some(channel.ours, kind, memoryview(b"y")) == 0
    assert take(channel.theirs) == b"x" * total
    assert fds.write_some(channel.ours, kind, memoryview(b"y")) == 1
    assert take(channel.theirs) == b"y"
    assert fcntl.fcntl(channel.ours, fcntl.F_GETFL) == before
    assert not before & os.O_NONBLOCK


@pytest.mark.parametrize("pattern", [b"x", b"\n", b"\t", b"line\n", b"a\r\n\tb", "é\n".encode()])
def test_a_terminal_that_nobody_reads_takes_no_more_than_it_has_room_for(pattern: bytes) -> None:
    """A terminal makes lines and tabs longer, so that room for a byte is not room for what becomes of it."""
    channel = Channel("terminal")
    assert fill(channel.ours, "terminal", pattern) > 1000
    for size in range(1, 300):  # so that room is there in all amounts
        os.read(channel.theirs, size)
        fill(channel.ours, "terminal", pattern)
    channel.close()


def test_what_a_full_pipe_did_not_take_does_not_come_out_elsewhere() -> None:
    full, broken, good = Channel("pipe"), Channel("pipe"), Channel("pipe")
    fill(full.ours, "pipe")
    assert fds.write_some(full.ours, "pipe", memoryview(b"lost?")) == 0
    broken.hang_up()
    with pytest.raises(BrokenPipeError):
        fds.write_some(broken.ours, "pipe", memoryview(b"lost?"))
    assert fds.write_some(good.ours, "pipe", memoryview(b"good")) == 4
    assert take(good.theirs) == b"good"
    assert fds.read_some(good.reading().ours, "pipe") is None
    for channel in (full, broken, good):
        channel.close()


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 200_000), max_size=6),
    reads=st.lists(st.integers(1, 100_000), min_size=1, max_size=20),
)
def test_a_pipe_gets_every_byte_in_order_whatever_the_sizes(sizes: list[int], reads: list[int]) -> None:
    channel, loop = Channel("pipe"), Loop()
    source = random.Random(sum(sizes)).randbytes(sum(sizes))
    writer = Writer(loop, channel.ours, lambda: None, lambda: pytest.fail("broken"))
    got, at = b"", 0
    for size in sizes:
        writer.write(memoryview(source)[at : at + size])
        at += size
    for size in [*reads, *[65536] * (len(source) // 4096 + 1)]:
        if is_readable(channel.theirs):
            got += os.read(channel.theirs, size)
        settle(loop)
    assert got == source
    assert not writer.is_behind
    assert writer.written == len(source)
    writer.close()
    channel.hang_up()


class Consumer(threading.Thread):
    """Reads slowly: small and odd amounts, and half of it not before it is let go on."""

    def __init__(self, fd: int, total: int) -> None:
        super().__init__(daemon=True)
        self._fd, self._total = fd, total
        self.data = bytearray()
        self.may_go_on = threading.Event()
        self.start()

    def run(self) -> None:
        sizes = random.Random(1)
        while len(self.data) < self._total:
            if len(self.data) > self._total // 2:
                self.may_go_on.wait(30)
            self.data += os.read(self._fd, sizes.randint(1, 9000))


def test_ten_mebibytes_through_a_slow_reader(channel: Channel) -> None:
    total = MIB if channel.kind == "raw terminal" else 10 * MIB
    source = memoryview(random.Random(2).randbytes(total))
    loop = Loop()
    at = 0

    def feed() -> None:
        nonlocal at
        while at < total and not writer.is_behind:
            writer.write(source[at : at + 200_000])
            at += 200_000
        if not writer.is_behind:
            loop.stop()
        elif at > total // 2:
            consumer.may_go_on.set()

    writer = Writer(loop, channel.ours, feed, lambda: pytest.fail("broken"))
    consumer = Consumer(channel.theirs, total)
    loop.call_later(0, feed)
    loop.run()
    assert consumer.may_go_on.is_set(), "the reader was never behind, so this has tested nothing"
    consumer.join(30)
    assert consumer.data == source
    assert writer.written == total
    writer.close()


def behind(loop: Loop, channel: Channel, events: list[str]) -> Writer:
    def broken() -> None:
        events.append("broken")
        loop.stop()

    writer = Writer(loop, channel.ours, lambda: events.append("drained"), broken)
    while not writer.is_behind:
        writer.write(memoryview(bytes(MIB)))
    return writer


def test_a_reader_that_goes_away_while_it_is_behind_is_told_once(channel: Channel) -> None:
    loop, events = Loop(), list[str]()
    writer = behind(loop, channel, events)
    settle(loop)
    assert events == []
    channel.hang_up()
    until(loop, lambda: bool(events))
    settle(loop)
    assert events == ["broken"]
    assert not writer.is_behind
    assert not is_open(channel.ours)
    writer.write(memoryview(b"more"))
    settle(loop)
    assert events == ["broken"]


def test_a_reader_that_is_gone_is_told_by_the_loop_not_from_within_the_call(channel: Channel) -> None:
    loop, events = Loop(), list[str]()
    writer = Writer(loop, channel.ours, lambda: events.append("drained"), lambda: events.append("broken"))
    channel.hang_up()
    writer.write(memoryview(b"unread"))
    assert events == []
    settle(loop)
    assert events == ["broken"]
    assert not is_open(channel.ours)


def test_closing_drops_the_backlog_and_calls_nobody(channel: Channel) -> None:
    loop, events = Loop(), list[str]()
    writer = behind(loop, channel, events)
    writer.close()
    writer.close()
    assert not is_open(channel.ours)
    take(channel.theirs)
    settle(loop)
    assert events == []


def test_a_writer_is_drained_once_for_each_backlog(channel: Channel) -> None:
    loop, events = Loop(), list[str]()
    writer = behind(loop, channel, events)
    for _ in range(100_000):
        take(channel.theirs)
        settle(loop)
        if not writer.is_behind:
            break
    assert events == ["drained"]
    writer.close()


def test_a_regular_file_gets_all_at_its_own_place(tmp_path: Path) -> None:
    """As mpirun's `> file` shares one place in the file with all its agents, ours must neither seek nor reopen."""
    path = tmp_path / "out"
    shared = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(shared, b"mpirun's line\n")
    loop = Loop()
    writer = Writer(loop, os.dup(shared), lambda: None, lambda: pytest.fail("broken"))
    writer.write(memoryview(b"y" * 3 * MIB))
    assert not writer.is_behind
    os.write(shared, b"its next line\n")
    assert path.read_bytes() == b"mpirun's line\n" + b"y" * 3 * MIB + b"its next line\n"
    writer.close()
    os.close(shared)


@pytest.mark.parametrize("path", ["/dev/full"])
def test_a_full_disk_is_broken(path: str) -> None:
    loop, events = Loop(), list[str]()
    writer = Writer(loop, os.open(path, os.O_WRONLY), lambda: None, lambda: events.append("broken"))
    writer.write(memoryview(b"x"))
    settle(loop)
    assert events == ["broken"]


def test_a_file_that_takes_a_part_is_broken(tmp_path: Path) -> None:
    """The disk is full, or a limit is met; as a file can't be waited for, the rest can go nowhere."""
    small = os.memfd_create("small", os.MFD_ALLOW_SEALING)
    os.ftruncate(small, 1000)
    fcntl.fcntl(small, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    loop, events = Loop(), list[str]()
    writer = Writer(loop, small, lambda: events.append("drained"), lambda: events.append("broken"))
    writer.write(memoryview(bytes(5000)))
    settle(loop)
    assert events == ["broken"]
    assert not is_open(small)


def test_dev_null_takes_everything() -> None:
    loop = Loop()
    writer = Writer(loop, os.open("/dev/null", os.O_WRONLY), lambda: None, lambda: pytest.fail("broken"))
    writer.write(memoryview(bytes(MIB)))
    assert (writer.is_behind, writer.written) == (False, MIB)
    writer.close()


# Reader


def collect(loop: Loop, fd: int) -> tuple[Reader, list[bytes]]:
    got: list[bytes] = []

    def take(data: bytes) -> None:
        got.append(data)
        loop.stop()

    return Reader(loop, fd, take), got


def feed(fd: int, data: bytes) -> threading.Thread:
    def run() -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view[:70_001]) :]
        os.close(fd)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_ten_mebibytes_from_a_fast_writer_with_pauses(kind: str) -> None:
    channel, loop = Channel(kind).reading(), Loop()
    source = random.Random(3).randbytes(10 * MIB)
    before = fcntl.fcntl(channel.ours, fcntl.F_GETFL)
    kept = os.dup(channel.ours)
    reader, got = collect(loop, channel.ours)
    writer = feed(channel.theirs, source)
    reader.resume()
    turn = 0
    while not got or got[-1]:
        count = len(got)
        until(loop, lambda count=count: len(got) > count)  # type: ignore[misc]
        turn += 1
        if turn % 7 == 0 and got[-1]:
            reader.pause()
            seen = len(got)
            settle(loop)
            assert len(got) == seen, "read while paused"
            reader.resume()
            reader.resume()
    writer.join(30)
    assert b"".join(got) == source
    assert got.count(b"") == 1
    assert not is_open(channel.ours)
    assert fcntl.fcntl(kept, fcntl.F_GETFL) == before
    os.close(kept)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_two_readers_of_one_stream_share_it_and_neither_waits(kind: str) -> None:
    channel, loop = Channel(kind).reading(), Loop()
    readers = [collect(loop, os.dup(channel.ours)) for _ in range(2)]
    for reader, _ in readers:
        reader.resume()
    for number in range(50):  # the kernel calls both ready; whoever is second finds nothing
        os.write(channel.theirs, b"%02d" % number)
        settle(loop)
    got = [b"".join(pieces) for _, pieces in readers]
    assert sum(map(len, got)) == 100
    channel.hang_up()
    settle(loop)
    assert [pieces.count(b"") for _, pieces in readers] == [1, 1]
    channel.close()


def test_an_end_is_told_once_and_the_descriptor_is_closed(channel: Channel) -> None:
    channel.reading()
    loop = Loop()
    reader, got = collect(loop, channel.ours)
    os.write(channel.theirs, b"last words")
    reader.resume()
    until(loop, lambda: bool(got))
    channel.hang_up()
    until(loop, lambda: got[-1] == b"")
    settle(loop)
    assert got == [b"last words", b""]
    assert not is_open(channel.ours)
    for call in (reader.resume, reader.pause, reader.close):
        call()
    settle(loop)
    assert got == [b"last words", b""]


def test_a_closed_reader_hears_nothing_more(channel: Channel) -> None:
    channel.reading()
    loop = Loop()
    reader, got = collect(loop, channel.ours)
    reader.resume()
    os.write(channel.theirs, b"unread")
    reader.close()
    settle(loop)
    assert got == []
    assert not is_open(channel.ours)


def open_file(tmp_path: Path, data: bytes) -> int:
    path = tmp_path / "in"
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY)


def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    loop = Loop()
    data = random.Random(4).randbytes(300_000)
    reader, got = collect(loop, open_file(tmp_path, data))
    reader.resume()
    until(loop, lambda: bool(got) and got[-1] == b"")
    settle(loop)
    assert b"".join(got) == data
    assert got.count(b"") == 1


@pytest.mark.parametrize("act", ["pause", "pause and resume", "close"])
def test_a_file_is_read_no_faster_than_it_is_wanted(tmp_path: Path, act: str) -> None:
    loop, got = Loop(), list[bytes]()
    wants = True

    def take(data: bytes) -> None:
        assert wants, "read while paused"
        got.append(data)
        acts[act]()

    def pause() -> None:
        nonlocal wants
        wants = False
        reader.pause()

    def pause_and_resume() -> None:
        reader.pause()
        reader.resume()
        if len(got) == 2:
            pause()

    def close() -> None:
        reader.close()

    acts: dict[str, Callable[[], None]] = {
        "pause": pause, "pause and resume": pause_and_resume, "close": close
    }  # fmt: skip
    reader = Reader(loop, open_file(tmp_path, bytes(500_000)), take)
    reader.resume()
    for _ in range(5):
        settle(loop)
    assert len(got) == (2 if act == "pause and resume" else 1)
    reader.close()


def test_what_can_not_be_read_is_at_its_end(tmp_path: Path) -> None:
    write_only = Channel("pipe")
    for fd in (os.open(tmp_path, os.O_RDONLY), os.dup(write_only.ours)):
        loop = Loop()
        reader, got = collect(loop, fd)
        reader.resume()
        if fds.kind_of(fd) == "pipe":
            write_only.hang_up()  # wakes the loop: EPOLLERR
        until(loop, lambda got=got: bool(got))  # type: ignore[misc]
        assert got == [b""]
    write_only.close()
