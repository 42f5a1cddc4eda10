"""Whatever a client hands over as stdin or stdout: nobody waits for it, spins on it, or sees a byte of another's."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import select
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from channels import Channel, is_open, is_readable, take
from scripted_api import settle

from agents.common.loop import Loop
from rshagent.net import fds
from rshagent.net.pumps import Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)  # a call that waits would wait for ever

_LIBC = ctypes.CDLL(None, use_errno=True)
_PIPE_BUF = 4096


def eventfd() -> int:
    return os.eventfd(0, 0)


def timerfd() -> int:
    return int(_LIBC.timerfd_create(1, 0))


def signalfd() -> int:
    mask = (ctypes.c_ulong * 16)(1 << 9)  # USR1
    return int(_LIBC.signalfd(-1, mask, 0))


def inotify() -> int:
    return int(_LIBC.inotify_init1(0))


def epoll() -> int:
    with select.epoll() as waits:
        return os.dup(waits.fileno())


def pidfd() -> int:
    return os.pidfd_open(os.getpid())


def packets(flags: int) -> int:
    ends = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    os.close(ends[flags])
    return ends[1 - flags]


def path_of(path: str, flags: int) -> Callable[[], int]:
    return lambda: os.open(path, flags | os.O_CLOEXEC)


def lone(family: int, kind: int) -> Callable[[], int]:
    return lambda: socket.socket(family, kind).detach()


def listening(family: int, address: bytes | tuple[str, int]) -> Callable[[], int]:
    def make() -> int:
        sock = socket.socket(family)
        sock.bind(address)
        sock.listen()
        return sock.detach()

    return make


def shut(kind: int) -> Callable[[], int]:
    def make() -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        theirs.close()
        ours.shutdown(socket.SHUT_RDWR)
        return ours.detach()

    return make


def connected_to_nobody() -> int:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", 9))
    return sock.detach()


def closed_terminal() -> int:
    theirs, ours = os.openpty()
    os.close(theirs)
    return ours


UNIX, INET, INET6 = socket.AF_UNIX, socket.AF_INET, socket.AF_INET6
STREAM, DGRAM, SEQPACKET = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
ODD: dict[str, Callable[[], int]] = {
    "eventfd": eventfd,
    "timerfd": timerfd,
    "signalfd": signalfd,
    "inotify": inotify,
    "epoll": epoll,
    "pidfd": pidfd,
    "packets, reading end": lambda: packets(1),
    "packets, writing end": lambda: packets(0),
    "folder": path_of("/", os.O_RDONLY),
    "path of a folder": path_of("/", os.O_PATH),
    "path of a file": path_of("/etc/passwd", os.O_PATH),
    "path of a terminal": path_of("/dev/ptmx", os.O_PATH),
    "read-only file": path_of("/etc/passwd", os.O_RDONLY),
    "/dev/null": path_of("/dev/null", os.O_RDWR),
    "/dev/zero": path_of("/dev/zero", os.O_RDWR),
    "/dev/full": path_of("/dev/full", os.O_RDWR),
    "/dev/urandom": path_of("/dev/urandom", os.O_RDONLY),
    "namespace": path_of("/proc/self/ns/mnt", os.O_RDONLY),
    "file of /proc": path_of("/proc/self/status", os.O_RDONLY),
    "terminal's master": path_of("/dev/ptmx", os.O_RDWR | os.O_NOCTTY),
    "closed terminal": closed_terminal,
    "empty file in memory": lambda: os.memfd_create("odd"),
    **{
        f"{name} {kind.name} alone": lone(family, kind)
        for name, family in (("unix", UNIX), ("inet", INET), ("inet6", INET6))
        for kind in (STREAM, DGRAM)
    },
    "unix SEQPACKET alone": lone(UNIX, SEQPACKET),
    "unix listening": listening(UNIX, b""),
    "inet listening": listening(INET, ("127.0.0.1", 0)),
    "UDP to nobody": connected_to_nobody,
    **{f"unix {kind.name} shut down": shut(kind) for kind in (STREAM, DGRAM, SEQPACKET)},
}


def make(name: str) -> int:
    fd = ODD[name]()
    if fd < 0:
        pytest.fail(f"{name}: {os.strerror(ctypes.get_errno())}")
    return fd


class Counting(Loop):
    """Counts its turns: one that spins has thousands in no time."""

    turns = 0

    def _run_due(self) -> None:
        self.turns += 1
        super()._run_due()


class Recording(Loop):
    """Keeps what it is to call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[int], None]] = []

    def add(self, fd: int, mask: int, call: Callable[[int], None]) -> None:
        super().add(fd, mask, call)
        self.calls.append(call)


def let_pass(loop: Counting, seconds: float) -> int:
    """Run the loop for so long; return how many turns that took."""
    before = loop.turns
    loop.call_later(seconds, loop.stop)
    loop.run()
    return loop.turns - before


def assert_others_are_well(loop: Loop) -> None:
    """Another session's bytes come and go unchanged."""
    there, back = Channel("pipe"), Channel("pipe").reading()
    writer, got = Writer(loop, os.dup(there.ours), lambda: None, lambda: pytest.fail("broken")), list[bytes]()
    reader = Reader(loop, os.dup(back.ours), got.append)
    reader.resume()
    writer.write(memoryview(b"mine"))
    os.write(back.theirs, b"yours")
    settle(loop)
    assert (take(there.theirs), got) == (b"mine", [b"yours"])
    for each in (writer, reader, there, back):
        each.close()


@pytest.mark.parametrize("name", ODD)
def test_an_odd_stdin_holds_nobody_up(name: str) -> None:
    loop, got = Counting(), list[bytes]()
    fd = make(name)

    def take_some(data: bytes) -> None:
        got.append(data)
        if len(got) > 100:  # /dev/zero never ends
            reader.close()

    reader = Reader(loop, fd, take_some)
    reader.resume()
    assert let_pass(loop, 0.3) < 300
    assert got.count(b"") <= 1
    if got and not got[-1]:
        assert not is_open(fd)
    assert_others_are_well(loop)
    reader.close()


@pytest.mark.parametrize("name", ODD)
def test_an_odd_stdout_holds_nobody_up(name: str) -> None:
    before = fds.held.total  # of all tests of the process
    loop, events = Counting(), list[str]()
    fd = make(name)
    writer = Writer(loop, fd, lambda: events.append("drained"), lambda: events.append("broken"))
    for _ in range(40):
        if not writer.is_behind:
            writer.write(memoryview(bytes(100_000)))
    assert let_pass(loop, 0.3) < 300
    assert_others_are_well(loop)
    assert events.count("broken") <= 1
    writer.close()
    assert fds.held.total == before


SIZES = {"tiny": [1] * 40, "mixed": [10, 4096, 1, 0, 300] * 8, "pages": [4096] * 30, "split": [5000, 70_000, 3]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("room", [None, 4096], ids=["", "little room"])
def test_a_pipe_of_packets_is_read_whole_and_leaves_nothing_behind(sizes: list[int], room: int | None) -> None:
    """mpirun's may be one: a read gives a packet, splice(2) moves many (pipe(2), O_DIRECT)."""
    reading, writing = os.pipe2(os.O_DIRECT)
    if room is not None:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, room)
    source = random.Random(len(sizes)).randbytes(sum(sizes))
    loop, got = Loop(), list[bytes]()
    reader = Reader(loop, reading, got.append)
    reader.resume()

    def feed() -> None:
        at = 0
        for size in sizes:
            os.write(writing, source[at : at + size])
            at += size
        os.close(writing)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    while not got or got[-1]:
        settle(loop)
        assert_others_are_well(loop)
    thread.join(10)
    assert b"".join(got) == source


def test_packets_are_written_whole() -> None:
    reading, writing = os.pipe2(os.O_DIRECT)
    source = random.Random(8).randbytes(20_000)
    assert fds.write_some(writing, "pipe", memoryview(source)) == len(source)
    got = b""
    while is_readable(reading):
        got += os.read(reading, _PIPE_BUF)
    assert got == source
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("fails", ["read", "write", "splice"])
def test_what_an_error_leaves_in_our_own_pipe_is_nobodys(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    source = Channel("pipe").reading()
    os.write(source.theirs, b"secret")
    full = Channel("pipe")
    plain = getattr(os, fails)

    def broken(*arguments: object, **options: object) -> object:
        plain(*arguments, **options)
        raise OSError(5, "of the kernel's own")

    monkeypatch.setattr(os, fails, broken)
    with contextlib.suppress(OSError):
        fds.read_some(source.ours, "pipe")
    with contextlib.suppress(OSError):
        fds.write_some(full.ours, "pipe", memoryview(b"secret"))
    monkeypatch.undo()
    assert_others_are_well(Loop())
    source.close()
    full.close()


@pytest.mark.parametrize("kind", [DGRAM, SEQPACKET])
def test_messages_are_read_whole_and_an_empty_datagram_is_no_end(kind: int) -> None:
    ours, theirs = socket.socketpair(UNIX, kind)
    loop, got = Loop(), list[bytes]()
    reader = Reader(loop, ours.detach(), got.append)
    reader.resume()
    sent = [b"a", bytes(65536), b"c" * 150_000]
    for message in sent:
        theirs.send(message)
        settle(loop)
    if kind == DGRAM:
        theirs.send(b"")
        settle(loop)
    assert got == sent
    theirs.close()
    settle(loop)
    assert got == sent + [b""] * (kind == SEQPACKET)
    reader.close()


@pytest.mark.parametrize("kind", [DGRAM, SEQPACKET])
def test_messages_are_written_no_longer_than_they_can_be(kind: int) -> None:
    ours, theirs = socket.socketpair(UNIX, kind)
    source = random.Random(9).randbytes(3 << 20)
    loop = Loop()
    writer = Writer(loop, ours.detach(), lambda: None, lambda: pytest.fail("broken"))
    writer.write(memoryview(source))
    got = b""
    while len(got) < len(source):
        got += theirs.recv(1 << 20)
        settle(loop)
    assert got == source
    writer.close()
    theirs.close()


@pytest.mark.parametrize("kind", [STREAM, DGRAM])
def test_a_socket_that_was_shut_down_for_reading_is_no_busy_loop(kind: int) -> None:
    """A datagram's is called readable for ever, and has nothing."""
    ours, theirs = socket.socketpair(UNIX, kind)
    ours.shutdown(socket.SHUT_RD)
    loop, got = Counting(), list[bytes]()
    reader = Reader(loop, ours.detach(), got.append)
    reader.resume()
    assert let_pass(loop, 0.5) < 100
    assert got == ([b""] if kind == STREAM else [])
    reader.close()
    assert let_pass(loop, 0.3) < 5
    theirs.close()


def test_a_fifo_that_is_appended_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reading = os.open(tmp_path / "fifo", os.O_RDWR)
    writer = Writer(
        Loop(), os.open(tmp_path / "fifo", os.O_WRONLY | os.O_APPEND), lambda: None, lambda: pytest.fail("broken")
    )
    writer.write(memoryview(b"appended"))
    assert os.read(reading, 100) == b"appended"
    writer.close()
    os.close(reading)


@pytest.mark.parametrize("writes", [False, True], ids=["reading", "writing"])
def test_a_terminal_that_others_use_too_is_never_waited_for(monkeypatch: pytest.MonkeyPatch, writes: bool) -> None:
    """What poll(2) has seen can be gone when we call."""
    theirs, shared = os.openpty()
    loop = Recording()
    before = fcntl.fcntl(shared, fcntl.F_GETFL)
    monkeypatch.setattr(fds, "polls", lambda _fd, _events: True)
    if writes:
        writer = Writer(loop, os.dup(shared), lambda: None, lambda: pytest.fail("broken"))
        while not writer.is_behind:
            writer.write(memoryview(bytes(10_000)))
        writer.close()
    else:
        reader = Reader(loop, os.dup(shared), lambda _: pytest.fail("nothing was typed"))
        reader.resume()
        loop.calls[-1](select.EPOLLIN)
        reader.close()
    assert fcntl.fcntl(shared, fcntl.F_GETFL) == before
    os.close(theirs)
    os.close(shared)
