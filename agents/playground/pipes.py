"""The server's ends of a command's pipes, or of its terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE_CHANNEL = 0, 1, 2, 3, 4, 255  # Kubernetes' channels of an exec stream
PIECE = 32 * 1024  # the runtime copies by so much (Go's io.Copy), and each piece becomes one frame
_QUEUE = 1 << 20  # bytes of stdin that may wait for the command


class OutputPipe:
    """What the command writes, or another descriptor that is ours to read."""

    def __init__(self, fd: int, channel: int) -> None:
        self.channel = channel
        self._fd = fd
        self._is_open = True
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)

    async def read(self, size: int = PIECE) -> bytes:
        """Wait for data; nothing at the end."""
        while self._is_open:
            try:
                return os.read(self._fd, size)
            except BlockingIOError:
                await self._wait()
            except OSError:  # a terminal whose last user has left
                break
        return b""

    async def _wait(self) -> None:
        there = asyncio.Event()
        self._loop.add_reader(self._fd, there.set)
        try:
            await there.wait()
        finally:
            if self._is_open:
                self._loop.remove_reader(self._fd)

    def close(self) -> None:
        """Read no more: the command gets SIGPIPE if it writes."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._fd)
            os.close(self._fd)


class InputPipe:
    """What the command reads."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    @classmethod
    async def open(cls, fd: int) -> InputPipe:
        """Write to this file descriptor, which is ours from now on."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()  # which has nothing to read
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "wb", 0)
        )
        transport.set_write_buffer_limits(_QUEUE)
        return cls(asyncio.StreamWriter(transport, protocol, None, loop))

    async def write(self, data: bytes) -> None:
        """Give the command more; waits while too much waits for it. Nothing happens after its end."""
        if not self._writer.is_closing():
            self._writer.write(data)
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    def end(self) -> None:
        """End of file, after all that waits."""
        self._writer.close()

    def abort(self) -> None:
        """End of file, without the data that waits."""
        transport = self._writer.transport
        if not transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()


class Stdio:
    """The streams of one command. Give it `theirs` (stdin, stdout, stderr), then close them here."""

    def __init__(self) -> None:
        self.theirs: list[int] = []
        self.outputs: list[OutputPipe] = []
        self.stdin: InputPipe | None = None
        self.tty = ""
        self.resized: Callable[[int, int], None] = lambda _lines, _columns: None
        """Called when the client's terminal has another size."""
        self._terminal = -1

    async def open(self, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> None:
        """A terminal for all three, or pipes for those that are wanted and /dev/null for the others."""
        if tty:
            self._terminal, theirs = os.openpty()
            self.tty = os.ttyname(theirs)
            self.outputs.append(OutputPipe(self._terminal, STDOUT))
            self.theirs = [theirs] * 3
            if stdin:
                self.stdin = await InputPipe.open(os.dup(self._terminal))
            return
        self.theirs = [os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)] * 3
        for channel, wanted in ((STDOUT, stdout), (STDERR, stderr)):
            if wanted:
                reader, self.theirs[channel] = os.pipe2(os.O_CLOEXEC)
                self.outputs.append(OutputPipe(reader, channel))
        if stdin:
            self.theirs[STDIN], writer = os.pipe2(os.O_CLOEXEC)
            self.stdin = await InputPipe.open(writer)

    def resize(self, lines: int, columns: int) -> None:
        """The client's terminal has another size."""
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            self.resized(lines, columns)

    def close_theirs(self) -> None:
        """When the command has them."""
        for fd in set(self.theirs):
            os.close(fd)
        self.theirs = []

    def close(self) -> None:
        """Read and write no more."""
        self._terminal = -1
        if self.stdin is not None:
            self.stdin.abort()
        for pipe in self.outputs:
            pipe.close()
