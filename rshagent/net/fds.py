"""Reading and writing descriptors that belong to somebody else, without ever waiting for them.

mpirun hands its own stdin, stdout and stderr to all its agents. O_NONBLOCK is a property of the open file description,
so setting it would change mpirun's side too (and every sibling's): it is never touched. Per kind of descriptor:

- pipes: splice(2) with SPLICE_F_NONBLOCK from or to a pipe of our own, which neither waits nor needs a new kernel
  (RWF_NOWAIT works on pipes from Linux 6.4 only, and reopening /proc/self/fd/N is denied under another uid);
- sockets: MSG_DONTWAIT, and whole messages where the socket has such;
- terminals: an open file of our own where /proc lets us have one, which then can have O_NONBLOCK; poll(2) first in any
  case, then no more than a terminal takes in one write;
- regular files and the likes of /dev/null: a plain call, which waits for nothing but a disk;
- whatever else there is (eventfd, timerfd, epoll, inotify, userfaultfd …): never, as a call may wait whatever poll(2)
  says. As stdin it is at its end, as stdout it is closed.

What a reader does not take is kept in memory, and so is stdin that a command does not take. `held` counts these bytes
for the whole process: when there are many, each session takes in less at a time.
"""

from __future__ import annotations

import _socket
import errno
import functools
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_GETFL, fcntl

_CHUNK = 64 * 1024  # a pipe's default capacity
_TERMINAL_PIECE = 256  # a terminal that polls writable has room for this: a pty's is counted in 256 (TTYB_ALIGN_MASK)
_RECORD = 16 * 1024
_PLENTY, _MOST = 2 * 1024 * 1024, 8 * 1024 * 1024
_MESSAGE_MAX = 1024 * 1024  # of a socket that keeps messages apart: what is longer is cut, as by recv(2)

_NEVER_WAITING = (os.makedev(1, 3), os.makedev(1, 5), os.makedev(1, 7))  # /dev/null, /dev/zero, /dev/full

FILE, PIPE, SOCKET, TERMINAL, NONE = "file", "pipe", "socket", "terminal", "none"
_MEMORY_DEVICES = 1  # their major number: /dev/random, /dev/kmsg
_PSEUDO_TERMINALS = range(136, 144)  # major numbers of /dev/pts/*


class _Held:
    """The bytes that all sessions of this process keep until somebody takes them."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    @property
    def is_high(self) -> bool:
        """Say whether so much is kept that no session is to add more than it must."""
        return self.total >= _PLENTY

    def piece(self, *, kept_up: bool = False) -> int:
        """Return how many bytes a session takes in before it looks whether they can be passed on.

        One whose reader has `kept_up` so far does so at full speed where others have stalled. The least is one TLS
        record (RFC 8446 §5.1): OpenSSL keeps the rest of one that is read in part.
        """
        return _CHUNK if self.total < (_MOST if kept_up else _PLENTY) else _RECORD


held = _Held()


class _Scratch:
    """The pipe of our own between a borrowed pipe and our memory: empty between two calls, or replaced.

    It serves all sessions, one call at a time, so a byte that stays in it would come out in another one.
    """

    __slots__ = ("read_end", "write_end")

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def take(self, count: int) -> bytes:
        """Return all of the `count` bytes that are in it. Raises OSError where there are less."""
        data = os.read(self.read_end, count)
        while len(data) < count:  # what comes from a pipe of packets is read packet by packet (pipe(2), O_DIRECT)
            more = os.read(self.read_end, count - len(data))
            if not more:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            data += more
        return data


_own_pipe = functools.cache(_Scratch)


def _replace_own_pipe() -> None:
    os.close(_own_pipe().read_end)
    os.close(_own_pipe().write_end)
    _own_pipe.cache_clear()


def kind_of(fd: int) -> str:
    """Return which way of reading and writing fits `fd`."""
    status = os.fstat(fd)
    mode = status.st_mode
    if stat.S_ISFIFO(mode):
        return PIPE
    if stat.S_ISSOCK(mode):
        return SOCKET
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode):  # reading or writing a folder fails immediately
        return FILE
    if not stat.S_ISCHR(mode):
        return NONE
    if status.st_rdev in _NEVER_WAITING:
        return FILE
    return TERMINAL if os.isatty(fd) or os.major(status.st_rdev) == _MEMORY_DEVICES else NONE


def own_terminal(fd: int) -> None:
    """Put an open file of our own in the place of `fd` where that is a pseudo-terminal and we may open it.

    Others read and write the terminal, too: what poll(2) has seen may be gone when we call, and then we would wait.
    """
    if os.major(os.fstat(fd).st_rdev) not in _PSEUDO_TERMINALS:
        return
    try:
        access = fcntl(fd, F_GETFL) & os.O_ACCMODE
        own = os.open(f"/proc/self/fd/{fd}", access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        os.dup2(own, fd, inheritable=False)
        os.close(own)
    except OSError:  # another user's
        return


def is_null(fd: int) -> bool:
    """Say whether `fd` is /dev/null: nothing will ever come from it."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)


def read_some(fd: int, kind: str) -> bytes | None:
    """Return what can be read now, b"" at the end, None where reading would wait. Raises OSError."""
    try:
        if kind == PIPE:
            return _read_pipe(fd)
        if kind == SOCKET:
            with _borrowed(fd) as sock:
                return _receive(sock)
        if kind == NONE:
            return b""
        if kind == TERMINAL and not polls(fd, select.POLLIN):
            return None
        return os.read(fd, held.piece())
    except BlockingIOError:
        return None


def _read_pipe(fd: int) -> bytes:
    pipe = _own_pipe()
    moved = os.splice(fd, pipe.write_end, held.piece(), flags=os.SPLICE_F_NONBLOCK)
    try:
        return pipe.take(moved) if moved else b""
    except BaseException:
        _replace_own_pipe()
        raise


def _receive(sock: _socket.socket) -> bytes | None:
    """Receive from a stream, or one message; an empty datagram is no end, as datagrams have none."""
    if sock.type == _socket.SOCK_STREAM:
        return sock.recv(held.piece(), _socket.MSG_DONTWAIT)
    look = _socket.MSG_DONTWAIT | _socket.MSG_PEEK | _socket.MSG_TRUNC
    length = sock.recv_into(bytearray(1), 1, look)  # not `recv`: Python would make `length` bytes of it
    data = sock.recv(max(1, min(length, _MESSAGE_MAX)), _socket.MSG_DONTWAIT)
    return data if data or sock.type == _socket.SOCK_SEQPACKET else None


def write_some(fd: int, kind: str, data: memoryview) -> int:
    """Write what fits now and return how many bytes that was; 0 where writing would wait. Raises OSError."""
    try:
        if kind == PIPE:
            return _write_pipe(fd, data)
        if kind == SOCKET:
            with _borrowed(fd) as sock:
                return _send(sock, data)
        if kind == TERMINAL:
            return _write_terminal(fd, data)
        if kind == NONE:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return os.write(fd, data)
    except BlockingIOError:
        return 0


def _write_pipe(fd: int, data: memoryview) -> int:
    pipe, written = _own_pipe(), 0
    while written < len(data):
        try:
            filled = os.write(pipe.write_end, data[written : written + _CHUNK])
            try:
                moved = os.splice(pipe.read_end, fd, filled, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError:  # full by what the rounds before have written, which counts
                moved = 0
            if moved < filled:
                pipe.take(filled - moved)
        except BaseException:
            _replace_own_pipe()
            raise
        written += moved
        if moved < filled:
            break
    return written


def _send(sock: _socket.socket, data: memoryview) -> int:
    """Send what fits; in messages where the socket keeps them apart, none longer than it takes."""
    flags, size, sent = _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL, len(data), 0
    if sock.type == _socket.SOCK_STREAM:
        return sock.send(data, flags)
    while sent < len(data):
        try:
            sent += sock.send(data[sent : sent + size], flags)
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno != errno.EMSGSIZE or size <= 1:
                raise
            size = min(size, len(data) - sent) // 2
    return sent


def _write_terminal(fd: int, data: memoryview) -> int:
    """Write runs of plain bytes, and the bytes that a terminal makes longer (a line feed, a tab) one by one."""
    written = 0
    while written < len(data) and polls(fd, select.POLLOUT):
        piece = bytes(data[written : written + _TERMINAL_PIECE])
        plain = min((at for at in map(piece.find, (b"\n", b"\r", b"\t")) if at >= 0), default=len(piece))
        try:
            written += os.write(fd, piece[: max(plain, 1)])
        except BlockingIOError:  # it is somebody else's who made it non-blocking
            break
    return written


@contextmanager
def _borrowed(fd: int) -> Iterator[_socket.socket]:
    """Give a socket object around a descriptor that it does not own."""
    sock = _socket.socket(fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()


def polls(fd: int, events: int) -> bool:
    """Say whether poll(2) has one of the events for `fd` now."""
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(0))
