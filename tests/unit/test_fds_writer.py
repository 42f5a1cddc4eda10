"""What is written to a borrowed descriptor: all of it in order, or its reader is gone and that is told once."""

from __future__ import annotations

import fcntl
import os
import random
import threading
from typing import TYPE_CHECKING

import pytest
from channels import Channel, channel, is_open, take
from scripted_api import settle, until

from agents.common.loop import Loop
from rshagent.net.pumps import Writer

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["channel"]
pytestmark = pytest.mark.timeout(60)  # a call that waits would wait for ever

MIB = 1 << 20


class Consumer(threading.Thread):
    """Reads slowly: small and odd amounts, and half of it not before it may continue."""

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


def test_a_file_that_takes_a_part_is_broken(tmp_path: Path) -> None:
    """The disk is full, or a limit is met; as a file has no event for it, the rest can go nowhere."""
    small = os.memfd_create("small", os.MFD_ALLOW_SEALING)
    os.ftruncate(small, 1000)
    fcntl.fcntl(small, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    loop, events = Loop(), list[str]()
    writer = Writer(loop, small, lambda: events.append("drained"), lambda: events.append("broken"))
    writer.write(memoryview(bytes(5000)))
    settle(loop)
    assert events == ["broken"]
    assert not is_open(small)
