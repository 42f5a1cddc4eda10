"""A process that runs in a pod and was started from outside: as subprocess.Popen, but the pod's child, not ours."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import IO, Any

Stream = int | IO[Any] | None


@dataclass(frozen=True)
class Leftover:
    """A process that is still there."""

    pid: int
    argv: list[str]


class PodProcess:
    """See above. `returncode` is the exit code, 128+n for signal n."""

    def __init__(self, stdin: Stream, stdout: Stream, stderr: Stream, *, text: bool = False) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._ended, notify = os.pipe2(os.O_CLOEXEC)
        self._to_close = [notify]
        mode = "" if text else "b"
        theirs = [0, 1, 2]
        for number, wanted in enumerate((stdin, stdout, stderr)):
            if wanted == subprocess.PIPE:
                reader, writer = os.pipe2(os.O_CLOEXEC)
                theirs[number] = reader if number == 0 else writer
                ours = os.fdopen(writer, f"w{mode}") if number == 0 else os.fdopen(reader, f"r{mode}")
                setattr(self, ("stdin", "stdout", "stderr")[number], ours)
                self._to_close.append(theirs[number])
            elif wanted == subprocess.DEVNULL:
                theirs[number] = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                self._to_close.append(theirs[number])
            elif wanted == subprocess.STDOUT:
                theirs[number] = theirs[1]
            elif wanted is not None:
                theirs[number] = wanted if isinstance(wanted, int) else wanted.fileno()
        self.theirs = [*theirs, notify]
        """What the process gets: stdin, stdout, stderr, and the descriptor that takes its exit code."""

    def begin(self, pid: int) -> None:
        """It runs."""
        self.pid = pid
        self._close_theirs()

    def close(self) -> None:
        """Give all descriptors back."""
        self._close_theirs()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        if self._ended >= 0:
            os.close(self._ended)
            self._ended = -1

    def _close_theirs(self) -> None:
        for fd in self._to_close:
            os.close(fd)
        self._to_close.clear()

    def __enter__(self) -> PodProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.close()

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._ended, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(f"process {self.pid} of a pod", timeout or 0)
            told = os.read(self._ended, 16)
            self.returncode = int(told) if told else 137  # the server is gone, and the pod with it
            os.close(self._ended)
            self._ended = -1
        return self.returncode

    def communicate(self, data: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write stdin, read stdout and stderr to their ends, wait. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        read: dict[int, Any] = {}

        def take(number: int, stream: IO[Any]) -> None:
            read[number] = stream.read()

        outputs = [(number, stream) for number, stream in ((1, self.stdout), (2, self.stderr)) if stream is not None]
        threads = [threading.Thread(target=take, args=one, daemon=True) for one in outputs]
        for thread in threads:
            thread.start()
        if self.stdin is not None:
            try:
                if data:
                    self.stdin.write(data)
                self.stdin.close()
            except BrokenPipeError:
                pass
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                raise subprocess.TimeoutExpired(f"process {self.pid} of a pod", timeout or 0)
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        for _number, stream in outputs:
            stream.close()
        return read.get(1), read.get(2)

    def send_signal(self, number: int) -> None:
        """Signal it, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """TERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """KILL."""
        self.send_signal(signal.SIGKILL)
