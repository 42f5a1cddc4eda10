"""Borrowed descriptors: real pipes, sockets, terminals, files and devices; never blocked on, never changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from channels import Channel, channel, fill, take

from rshagent.net import fds

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["channel"]
pytestmark = pytest.mark.timeout(60)  # a call that waits would wait for ever


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


@pytest.mark.parametrize("pattern", [b"x", b"\n", b"\t", b"line\n", b"a\r\n\tb", "é\n".encode()])
def test_a_terminal_that_nobody_reads_takes_no_more_than_it_has_room_for(pattern: bytes) -> None:
    """A terminal makes lines and tabs longer, so that room for a byte is not room for what it is turned into."""
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
    for each in (full, broken, good):
        each.close()
