"""Reading and writing descriptors that belong to somebody else, without ever waiting for them.

mpirun hands its own stdin, stdout and stderr to all its agents. O_NONBLOCK is a property of the open file description,
so setting it would change mpirun's side too (and every sibling's): it is never touched. Per kind of descriptor:

- pipes: splice(2) with SPLICE_F_NONBLOCK from or to a pipe of our own, which neither waits nor needs a new kernel
  (RWF_NOWAIT works on pipes from Linux 6.4 only, and reopening /proc/self/fd/N is denied under another uid);
- sockets: MSG_DONTWAIT, and whole messages where the socket has such;
- terminals: an open file of our own where /proc lets us have one, which then can have O_NONBLOCK; poll(2) first in any
  case, then no more than a terminal takes at once;
- regular files and the likes of /dev/null: a plain call, which waits for nothing but a disk;
- whatever else there is (eventfd, timerfd, epoll, inotify, userfaultfd …): never, as a call may wait whatever poll(2)
  says. As stdin it is at its end, as stdout it is closed.

What a reader does not take is kept in memory, and so is stdin that a command does not take. `held` counts these bytes
for the whole process: when there are many, each session takes in less at a time.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import stat
from fcntl import F_GETFL, fcntl

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Loop, Timer

_CHUNK = 64 * 1024  # a pipe's default capacity
_TERMINAL_PIECE = 256  # a terminal that polls writable has room for this: a pty's is counted in 256 (TTYB_ALIGN_MASK)
_RECORD = 16 * 1024
_PLENTY, _MOST = 2 * 1024 * 1024, 8 * 1024 * 1024
_MESSAGE_MAX = 1024 * 1024  # of a socket that keeps messages apart: what is longer is cut, as by recv(2)
_EMPTY_MAX = 16  # times in a row that a descriptor may be called ready and then give or take nothing
_LATER_S = 0.2

_NEVER_WAITING = (os.makedev(1, 3), os.makedev(1, 5), os.makedev(1, 7))  # /dev/null, /dev/zero, /dev/full

_FILE, _PIPE, _SOCKET, _TERMINAL, _NONE = "file", "pipe", "socket", "terminal", "none"
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

    It serves all sessions, so a byte that stays in it would come out in another one.
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


_scratch: _Scratch | None = None


def _own_pipe() -> _Scratch:
    global _scratch  # noqa: PLW0603 (one for the process: it is used by one call at a time)
    if _scratch is None:
        _scratch = _Scratch()
    return _scratch


def _replace_own_pipe() -> None:
    global _scratch  # noqa: PLW0603
    if _scratch is not None:
        os.close(_scratch.read_end)
        os.close(_scratch.write_end)
        _scratch = None


def kind_of(fd: int) -> str:
    """Return which way of reading and writing fits `fd`."""
    status = os.fstat(fd)
    mode = status.st_mode
    if stat.S_ISFIFO(mode):
        return _PIPE
    if stat.S_ISSOCK(mode):
        return _SOCKET
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode):  # reading or writing a folder fails at once
        return _FILE
    if not stat.S_ISCHR(mode):
        return _NONE
    if status.st_rdev in _NEVER_WAITING:
        return _FILE
    return _TERMINAL if os.isatty(fd) or os.major(status.st_rdev) == _MEMORY_DEVICES else _NONE


def _own_terminal(fd: int) -> None:
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
        if kind == _PIPE:
            return _read_pipe(fd)
        if kind == _SOCKET:
            with _borrowed(fd) as sock:
                return _receive(sock)
        if kind == _NONE:
            return b""
        if kind == _TERMINAL and not _polls(fd, select.POLLIN):
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
        if kind == _PIPE:
            return _write_pipe(fd, data)
        if kind == _SOCKET:
            with _borrowed(fd) as sock:
                return _send(sock, data)
        if kind == _TERMINAL:
            return _write_terminal(fd, data)
        if kind == _NONE:
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
    while written < len(data) and _polls(fd, select.POLLOUT):
        piece = bytes(data[written : written + _TERMINAL_PIECE])
        plain = min((at for at in map(piece.find, (b"\n", b"\r", b"\t")) if at >= 0), default=len(piece))
        try:
            written += os.write(fd, piece[: max(plain, 1)])
        except BlockingIOError:  # it is somebody else's who made it non-blocking
            break
    return written


class _borrowed:  # noqa: N801 (reads as the verb it is)
    """A socket object around a descriptor that it does not own."""

    __slots__ = ("_sock",)

    def __init__(self, fd: int) -> None:
        self._sock = _socket.socket(fileno=fd)

    def __enter__(self) -> _socket.socket:
        return self._sock

    def __exit__(self, *_: object) -> None:
        self._sock.detach()


def _polls(fd: int, events: int) -> bool:
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(0))


class Writer:
    """Writes to a borrowed descriptor in order, keeping what does not fit until it does.

    `on_drained` is called when a backlog is gone, `on_broken` once when nobody reads any more.
    """

    __slots__ = (
        "_backlog", "_empty", "_fd", "_kind", "_loop", "_on_broken", "_on_drained", "_timer", "_waits", "is_broken",
        "written",
    )  # fmt: skip

    def __init__(self, loop: Loop, fd: int, on_drained: Callable[[], None], on_broken: Callable[[], None]) -> None:
        self._loop, self._fd, self._kind = loop, fd, kind_of(fd)
        self._on_drained, self._on_broken = on_drained, on_broken
        self._backlog = bytearray()
        self._waits = False
        self._empty = 0  # times in a row that it was called writable and took nothing
        self._timer: Timer | None = None
        self.is_broken = False
        self.written = 0
        if self._kind == _TERMINAL:
            _own_terminal(fd)

    @property
    def is_behind(self) -> bool:
        """Say whether the reader is waited for."""
        return self._waits

    def write(self, data: memoryview) -> None:
        """Write `data`, or keep (a copy of) what does not fit now."""
        if self._fd < 0:
            return
        if not self._waits:
            data = data[self._write(data) :]
            # With much kept already, the next piece is not even taken in before there is room for some of it.
            is_full = bool(data) or (held.is_high and self._kind != _FILE and not _polls(self._fd, select.POLLOUT))
            if self._fd < 0 or not is_full or not self._wait():
                return
        self._backlog += data
        held.total += len(data)

    def close(self) -> None:
        """Drop the backlog and the descriptor."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            if self._timer is not None:
                self._timer.cancel()
            self._loop.remove(fd)
            os.close(fd)
            held.total -= len(self._backlog)
            self._backlog = bytearray()  # not cleared: it may be viewed just now
            self._waits = False

    def _write(self, data: memoryview) -> int:
        try:
            written = write_some(self._fd, self._kind, data)
        except OSError:
            self._break()
            return len(data)
        self.written += written
        return written

    def _wait(self) -> bool:
        """Wait for room; False where that can't be: a regular file that took less than all, as its disk is full."""
        try:
            self._loop.add(self._fd, select.EPOLLOUT, self._resume)
        except OSError:
            self._break()
            return False
        self._waits = True
        return True

    def _resume(self, _events: int) -> None:
        with memoryview(self._backlog) as view:
            written = self._write(view)
        if self._fd < 0:
            return
        self._empty = 0 if written or not _polls(self._fd, select.POLLOUT) else self._empty + 1
        del self._backlog[:written]
        held.total -= written
        if not self._backlog:
            self._loop.remove(self._fd)
            self._waits = False
            self._on_drained()
        elif self._empty >= _EMPTY_MAX:
            self._loop.remove(self._fd)
            self._timer = self._loop.call_later(_LATER_S, self._wait_again)

    def _wait_again(self) -> None:
        self._wait()

    def _break(self) -> None:
        self.is_broken = True
        self.close()
        self._loop.call_later(0, self._on_broken)


class Reader:
    """Reads a borrowed descriptor as fast as its consumer wants, and not at all while it is paused.

    `on_data(bytes)` gets what came; b"" once at the end (or where reading failed).
    """

    __slots__ = ("_active", "_empty", "_fd", "_kind", "_loop", "_on_data", "_timer")

    def __init__(self, loop: Loop, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._loop, self._fd, self._on_data = loop, fd, on_data
        self._kind = kind_of(fd)
        self._active = False
        self._empty = 0  # times in a row that it was called readable and gave nothing
        self._timer: Timer | None = None
        if self._kind == _TERMINAL:
            _own_terminal(fd)

    def resume(self) -> None:
        """Begin, or go on, to read."""
        if self._fd >= 0 and not self._active:
            self._active = True
            self._wait()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if self._active:
            self._active = False
            if self._timer is not None:
                self._timer.cancel()
            self._loop.remove(self._fd)

    def close(self) -> None:
        """Drop the descriptor; nothing is called after this."""
        if self._fd >= 0:
            self.pause()
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _wait(self) -> None:
        if self._kind not in (_FILE, _NONE):
            try:
                self._loop.add(self._fd, select.EPOLLIN, self._read)
            except PermissionError:  # a device that is always ready
                self._kind = _FILE
            except OSError:  # O_PATH; or this user may wait for no more
                self._kind = _NONE
        if self._kind in (_FILE, _NONE):  # epoll refuses what is always ready
            self._timer = self._loop.call_later(0, self._read_file)

    def _read_file(self) -> None:
        self._timer = self._loop.call_later(0, self._read_file)
        self._read(0)

    def _read(self, _events: int) -> None:
        try:
            data = read_some(self._fd, self._kind)
        except OSError:
            data = b""
        if data is None:
            # Who shares a stream finds it empty at times, but then it is not called readable any more.
            self._empty = self._empty + 1 if _polls(self._fd, select.POLLIN) else 0
            if self._empty >= _EMPTY_MAX:  # a socket that was shut down, say, is ready for ever
                self._loop.remove(self._fd)
                self._timer = self._loop.call_later(_LATER_S, self._wait)
            return
        self._empty = 0
        if not data:
            self.close()
        self._on_data(data)
