"""The server's ends of a command's pipes (or of its terminal), on the loop."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections import deque
from typing import TYPE_CHECKING

from . import frames
from .loop import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

_QUEUE = 1 << 20  # bytes of stdin that may wait for the command
_BIG_PIPE = 1 << 20
_AT_ONCE = 64  # pieces for one writev
_BUSY = 65536  # a pipe that is found with so much in it gets a larger buffer
_framer = frames.OutputFramer()


class OutputPipe:
    """What the command writes. `ready` is called when there is something to `read`."""

    def __init__(self, loop: Loop, fd: int, channel: int, ready: Callable[[OutputPipe], None]) -> None:
        self.channel = channel
        self.open = True
        self._loop = loop
        self._fd = fd
        self._ready = ready
        self._paused = True
        os.set_blocking(fd, False)
        self.resume()

    def read(self) -> tuple[int, memoryview | bytes]:
        """Bytes read (0: it has ended, -1: nothing yet) and their frames, valid until the next read of any pipe."""
        try:
            count, data = _framer.read(self._fd, self.channel)
        except BlockingIOError:
            return -1, b""
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal whose last user has left
                raise
            return 0, b""
        if count >= _BUSY:
            _enlarge(self._fd)
        return count, data

    def read_little(self, size: int) -> tuple[int, bytes]:
        """As `read`, but at most so many bytes."""
        try:
            data = os.read(self._fd, size)
        except BlockingIOError:
            return -1, b""
        except OSError:
            return 0, b""
        return len(data), frames.channel_frame(self.channel, data)

    def pause(self) -> None:
        """Read nothing for a while: the command then waits when the pipe is full."""
        if self.open and not self._paused:
            self._paused = True
            self._loop.remove(self._fd)

    def resume(self) -> None:
        """Read again."""
        if self.open and self._paused:
            self._paused = False
            self._loop.add(self._fd, READ, lambda _mask: self._ready(self))

    def close(self) -> None:
        """Read no more: the command gets SIGPIPE if it writes."""
        if self.open:
            self.pause()
            self.open = False
            os.close(self._fd)


class InputPipe:
    """What the command reads. `crowded` is told True when too much waits for it, and False when all of it is taken."""

    def __init__(self, loop: Loop, fd: int, crowded: Callable[[bool], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._crowded = crowded
        self._queue: deque[memoryview] = deque()
        self._queued = 0
        self._open = True
        self._ending = False
        self._waiting = False
        self._is_crowded = False
        os.set_blocking(fd, False)

    def write(self, data: memoryview) -> None:
        """Give the command more, at the next `flush` or when it reads. Nothing happens after its end.

        The data are kept, not copied.
        """
        if self._open and not self._ending and data:
            self._queue.append(data)
            self._queued += len(data)

    def flush(self) -> None:
        """Write what has been given: many pieces by one system call."""
        if not self._waiting and self._queue:
            self._write()
        if self._queued > _QUEUE and not self._is_crowded:
            self._is_crowded = True
            self._crowded(True)

    def end(self) -> None:
        """End of file, after all that waits."""
        self._ending = True
        self.flush()
        if not self._queue:
            self.close()

    def close(self) -> None:
        """End of file at once."""
        if not self._open:
            return
        self._open = False
        if self._waiting:
            self._loop.remove(self._fd)
        os.close(self._fd)
        self._queue.clear()
        self._queued = 0
        self._relax()

    def _write(self, _mask: int = 0) -> None:
        try:
            while self._queue:
                self._drop(os.writev(self._fd, list(itertools.islice(self._queue, _AT_ONCE))))
        except BlockingIOError:
            self._wait()
            return
        except OSError:  # the command has closed it: what comes is dropped
            self.close()
            return
        if self._waiting:
            self._waiting = False
            self._loop.remove(self._fd)
        if self._ending:
            self.close()
        self._relax()

    def _drop(self, count: int) -> None:
        """So much of what waits is written."""
        self._queued -= count
        while count:
            first = self._queue.popleft()
            if len(first) > count:
                self._queue.appendleft(first[count:])
                return
            count -= len(first)

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            _enlarge(self._fd)
            self._loop.add(self._fd, WRITE, self._write)

    def _relax(self) -> None:
        if self._is_crowded:
            self._is_crowded = False
            self._crowded(False)


class Stdio:
    """The streams of one command: our ends on the loop, `theirs` (stdin, stdout, stderr) to be given to it."""

    def __init__(self, loop: Loop, ready: Callable[[OutputPipe], None], crowded: Callable[[bool], None]) -> None:
        self.theirs: list[int] = []
        self.outputs: list[OutputPipe] = []
        self.stdin: InputPipe | None = None
        self.terminal: int | None = None
        self.tty = ""
        self._loop = loop
        self._ready = ready
        self._crowded = crowded

    def open_pipes(self, *, stdin: bool, stdout: bool, stderr: bool) -> None:
        """Pipes for those that are wanted, /dev/null for the others."""
        if stdin:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            self.stdin = InputPipe(self._loop, writer, self._crowded)
            self.theirs.append(reader)
        else:
            self.theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        for channel, wanted in ((frames.STDOUT, stdout), (frames.STDERR, stderr)):
            if wanted:
                reader, writer = os.pipe2(os.O_CLOEXEC)
                self.outputs.append(OutputPipe(self._loop, reader, channel, self._ready))
                self.theirs.append(writer)
            else:
                self.theirs.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))

    def open_terminal(self, *, stdin: bool) -> None:
        """A terminal for all three."""
        self.terminal, theirs = os.openpty()
        self.tty = os.ttyname(theirs)
        self.outputs.append(OutputPipe(self._loop, self.terminal, frames.STDOUT, self._ready))
        if stdin:
            self.stdin = InputPipe(self._loop, os.dup(self.terminal), self._crowded)
        self.theirs = [theirs] * 3

    def close_theirs(self) -> None:
        """When the command has them."""
        for fd in set(self.theirs):
            os.close(fd)


def _enlarge(fd: int) -> None:
    """A busy pipe gets a larger buffer, where the user's limit (pipe-user-pages-soft) allows it."""
    try:
        if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < _BIG_PIPE:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BIG_PIPE)
    except OSError:
        pass  # a terminal, or the limit is reached
