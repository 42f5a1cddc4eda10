"""A client's stdin, stdout and stderr, borrowed for one launch and closed with it."""

from __future__ import annotations

import os
from collections.abc import Callable

from agents.common.loop import Loop
from agents.common.text import printable
from rshagent.net import fds
from rshagent.net.pumps import Reader, Writer


class Stdio:
    """Three descriptors, with what is on its way through them. `attach` before anything is read or written."""

    __slots__ = (
        "_loop", "_on_broken", "_on_data", "_on_drained", "_reader", "_stderr", "_stdin", "_stdout", "received", "sent",
    )  # fmt: skip

    def __init__(self, loop: Loop, stdin: int, stdout: int, stderr: int, *, reads_stdin: bool) -> None:
        """Take the descriptors over. Close stdin now without `reads_stdin`, or if nothing can come from it."""
        self._loop = loop
        self._stdin: int | None = stdin
        if not reads_stdin or fds.is_null(stdin):
            os.close(stdin)
            self._stdin = None
        self._reader: Reader | None = None
        self._stdout = Writer(loop, stdout, self._wrote, self._lost_stdout)
        self._stderr = Writer(loop, stderr, self._wrote, self._wrote)
        self._on_data: Callable[[bytes], None]
        self._on_drained: Callable[[], None]
        self._on_broken: Callable[[], None]
        self.sent = self.received = 0

    def attach(
        self, *, on_data: Callable[[bytes], None], on_drained: Callable[[], None], on_broken: Callable[[], None]
    ) -> None:
        """Tell of what comes from stdin (b"" once, at its end), of a backlog that is gone, of a stdout nobody reads."""
        self._on_data, self._on_drained, self._on_broken = on_data, on_drained, on_broken

    @property
    def reads_stdin(self) -> bool:
        """Say whether something may come from stdin."""
        return self._stdin is not None

    @property
    def is_behind(self) -> bool:
        """Say whether output waits for a reader."""
        return self._stdout.is_behind or self._stderr.is_behind

    @property
    def is_broken(self) -> bool:
        """Say whether stdout could not be written: some of the output is lost."""
        return self._stdout.is_broken

    def write(self, descriptor: int, data: memoryview) -> None:
        """Write the command's output to 1, stdout, or 2, stderr: exec's channels have the same numbers."""
        self.received += len(data)
        (self._stderr if descriptor == 2 else self._stdout).write(data)

    @property
    def is_terminal(self) -> bool:
        """Say whether stdin is a terminal that is still to be read."""
        return self._stdin is not None and os.isatty(self._stdin)

    def say(self, line: str) -> None:
        """Write a line of our own to stderr."""
        self._stderr.write(memoryview(f"{printable(line)}\n".encode()))

    def start_reading(self) -> None:
        """Read stdin, if there is one, also after a pause."""
        if self._stdin is not None:
            self._reader, self._stdin = Reader(self._loop, self._stdin, self._read), None
        if self._reader is not None:
            self._reader.resume()

    def resume_reading(self) -> None:
        """Go on after a pause."""
        if self._reader is not None:
            self._reader.resume()

    def pause_reading(self) -> None:
        """Take no more from stdin for now."""
        if self._reader is not None:
            self._reader.pause()

    def stop_reading(self) -> None:
        """Let go of stdin."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def close(self) -> None:
        """Let go of all three, written or not."""
        self.stop_reading()
        self._stdout.close()
        self._stderr.close()

    def _read(self, data: bytes) -> None:
        self.sent += len(data)
        if not data:
            self._reader = None
        self._on_data(data)

    def _wrote(self) -> None:
        if not self.is_behind:
            self._on_drained()

    def _lost_stdout(self) -> None:
        self._on_broken()
