"""Reading and writing descriptors that belong to somebody else, without ever waiting for them.

mpirun hands its own stdin, stdout and stderr to all its agents. O_NONBLOCK is a property of the open file description,
so setting it would change mpirun's side too (and every sibling's): it is never touched. Per kind of descriptor:

- pipes: splice(2) with SPLICE_F_NONBLOCK from or to a pipe of our own, which neither waits nor needs a new kernel
  (RWF_NOWAIT works on pipes from Linux 6.4 only, and reopening /proc/self/fd/N is denied under another uid);
- sockets: MSG_DONTWAIT;
- terminals, and whatever else there is: poll(2) first, then no more than a terminal takes at once;
- regular files and the likes of /dev/null: a plain call, which waits for nothing but a disk.
"""

from __future__ import annotations

import _socket
import os
import select
import stat

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.loop import Loop, Timer

_CHUNK = 64 * 1024  # a pipe's default capacity
_TERMINAL_PIECE = 256  # a terminal that polls writable has room for this: a pty's is counted in 256 (TTYB_ALIGN_MASK)
_STDIN_CHUNK = 64 * 1024

_NEVER_WAITING = (os.makedev(1, 3), os.makedev(1, 5), os.makedev(1, 7))  # /dev/null, /dev/zero, /dev/full

_FILE, _PIPE, _SOCKET, _TERMINAL = "file", "pipe", "socket", "terminal"


class _Scratch:
    """The pipe of our own between a borrowed pipe and our memory; always empty between two calls."""

    __slots__ = ("read_end", "write_end")

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)


_scratch: _Scratch | None = None


def _own_pipe() -> _Scratch:
    global _scratch  # noqa: PLW0603 (one for the process: it is used by one call at a time)
    if _scratch is None:
        _scratch = _Scratch()
    return _scratch


def kind_of(fd: int) -> str:
    """Return which way of reading and writing fits `fd`."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        return _PIPE
    if stat.S_ISSOCK(mode):
        return _SOCKET
    return _FILE if stat.S_ISREG(mode) or os.fstat(fd).st_rdev in _NEVER_WAITING else _TERMINAL


def is_null(fd: int) -> bool:
    """Say whether `fd` is /dev/null: nothing will ever come from it."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)


def read_some(fd: int, kind: str) -> bytes | None:
    """Return what can be read now, b"" at the end, None where reading would wait. Raises OSError."""
    try:
        if kind == _PIPE:
            pipe = _own_pipe()
            moved = os.splice(fd, pipe.write_end, _STDIN_CHUNK, flags=os.SPLICE_F_NONBLOCK)
            return os.read(pipe.read_end, moved) if moved else b""
        if kind == _SOCKET:
            with _borrowed(fd) as sock:
                return sock.recv(_STDIN_CHUNK, _socket.MSG_DONTWAIT)
        if kind == _TERMINAL and not _polls(fd, select.POLLIN):
            return None
        return os.read(fd, _STDIN_CHUNK)
    except BlockingIOError:
        return None


def write_some(fd: int, kind: str, data: memoryview) -> int:
    """Write what fits now and return how many bytes that was; 0 where writing would wait. Raises OSError."""
    try:
        if kind == _PIPE:
            return _write_pipe(fd, data)
        if kind == _SOCKET:
            with _borrowed(fd) as sock:
                return sock.send(data, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        if kind == _TERMINAL:
            return _write_terminal(fd, data)
        return os.write(fd, data)
    except BlockingIOError:
        return 0


def _write_pipe(fd: int, data: memoryview) -> int:
    pipe, written = _own_pipe(), 0
    while written < len(data):
        filled = os.write(pipe.write_end, data[written : written + _CHUNK])
        moved = 0
        try:
            moved = os.splice(pipe.read_end, fd, filled, flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:  # full by what the rounds before have written, which counts
            pass
        finally:
            if moved < filled:
                os.read(pipe.read_end, filled - moved)
        written += moved
        if moved < filled:
            break
    return written


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

    __slots__ = ("_backlog", "_fd", "_kind", "_loop", "_on_broken", "_on_drained", "written")

    def __init__(self, loop: Loop, fd: int, on_drained: Callable[[], None], on_broken: Callable[[], None]) -> None:
        self._loop, self._fd, self._kind = loop, fd, kind_of(fd)
        self._on_drained, self._on_broken = on_drained, on_broken
        self._backlog = bytearray()
        self.written = 0

    @property
    def is_behind(self) -> bool:
        """Say whether bytes are waiting for the reader."""
        return bool(self._backlog)

    def write(self, data: memoryview) -> None:
        """Write `data`, or keep (a copy of) what does not fit now."""
        if self._fd < 0:
            return
        if not self._backlog:
            data = data[self._write(data) :]
            if not data or self._fd < 0:
                return
            try:
                self._loop.add(self._fd, select.EPOLLOUT, self._resume)
            except PermissionError:  # a regular file that took less than all: its disk is full or limited
                self._break()
                return
        self._backlog += data

    def close(self) -> None:
        """Drop the backlog and the descriptor."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._loop.remove(fd)
            os.close(fd)
            self._backlog = bytearray()  # not cleared: it may be viewed just now

    def _write(self, data: memoryview) -> int:
        try:
            written = write_some(self._fd, self._kind, data)
        except OSError:
            self._break()
            return len(data)
        self.written += written
        return written

    def _resume(self, _events: int) -> None:
        with memoryview(self._backlog) as view:
            written = self._write(view)
        if self._fd < 0:
            return
        del self._backlog[:written]
        if not self._backlog:
            self._loop.remove(self._fd)
            self._on_drained()

    def _break(self) -> None:
        self.close()
        self._loop.call_later(0, self._on_broken)


class Reader:
    """Reads a borrowed descriptor as fast as its consumer wants, and not at all while it is paused.

    `on_data(bytes)` gets what came; b"" once at the end (or where reading failed).
    """

    __slots__ = ("_active", "_fd", "_kind", "_loop", "_on_data", "_timer")

    def __init__(self, loop: Loop, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._loop, self._fd, self._on_data = loop, fd, on_data
        self._kind = kind_of(fd)
        self._active = False
        self._timer: Timer | None = None

    def resume(self) -> None:
        """Begin, or go on, to read."""
        if self._fd < 0 or self._active:
            return
        self._active = True
        if self._kind != _FILE:
            try:
                self._loop.add(self._fd, select.EPOLLIN, self._read)
            except PermissionError:  # a folder, or a device that can't be waited for
                self._kind = _FILE
        if self._kind == _FILE:  # epoll refuses what is always ready
            self._timer = self._loop.call_later(0, self._read_file)

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

    def _read_file(self) -> None:
        self._timer = self._loop.call_later(0, self._read_file)
        self._read(0)

    def _read(self, _events: int) -> None:
        try:
            data = read_some(self._fd, self._kind)
        except OSError:
            data = b""
        if data is None:
            return
        if not data:
            self.close()
        self._on_data(data)
