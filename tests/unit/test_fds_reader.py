"""What is read from a borrowed descriptor: no more than is wanted, none of it lost, and its end told once."""

from __future__ import annotations

import fcntl
import os
import random
import threading
from typing import TYPE_CHECKING

import pytest
from channels import Channel, channel, is_open
from scripted_api import settle, until

from agents.common.loop import Loop
from rshagent.net import fds
from rshagent.net.pumps import Reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["channel"]
pytestmark = pytest.mark.timeout(60)  # a call that waits would wait for ever

MIB = 1 << 20


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
