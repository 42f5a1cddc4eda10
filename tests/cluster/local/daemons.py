"""Processes that outlive the command which starts them, found again by their pid files."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from .places import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_LOG_TAIL = 600


class Daemon:
    """One long-lived process: its command line, its log, and a pid file that also holds its start time."""

    def __init__(self, name: str, command: Sequence[str | Path], run: Path, logs: Path) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self._pid_file = run / f"{name}.pid"
        self.log = logs / f"{name}.log"

    @property
    def pid(self) -> int | None:
        """The process id while it lives; the number alone may since be another process's."""
        try:
            pid, _, started = self._pid_file.read_text().partition(" ")
        except OSError:
            return None
        return int(pid) if started and _start_time(int(pid)) == started else None

    def start(self, *more: str) -> None:
        """Start it unless it lives; `more` goes behind the command line."""
        if self.pid is not None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        env = os.environ | {"GOGC": "400"}  # Go programs all, and memory is what there is enough of
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*self.command, *more],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started = _start_time(process.pid)
        if started is None:
            raise SetupError(f"{self.name} ended at once: {self.last_words()}")
        self._pid_file.write_text(f"{process.pid} {started}")
        # Nobody waits for it: it is to outlive us, and a test that kills it need not know whose child it is.
        process.returncode = 0

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it lives."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 20.0) -> None:
        """End it, with KILL where it does not end within the time."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError), _pidfd(pid) as ended:  # it may end by itself meanwhile
                os.kill(pid, number)
                if not ended(within_s):
                    os.kill(pid, signal.SIGKILL)
                    ended(within_s)
        self._pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """Return the end of its log, as one line."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "it left no log"
        return " | ".join(text[-_LOG_TAIL:].split("\n")[-4:]).strip(" |") + f" (all of it: {self.log})"


class _pidfd:  # noqa: N801 (a context manager)
    """Waits for the end of a process that need not be a child."""

    def __init__(self, pid: int) -> None:
        self._pid, self._fd = pid, os.pidfd_open(pid)

    def __enter__(self) -> Callable[[float], bool]:
        return self._ended

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _ended(self, within_s: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], within_s)
        if ready:
            with contextlib.suppress(ChildProcessError):  # somebody else's child, and so theirs to reap
                os.waitpid(self._pid, os.WNOHANG)
        return bool(ready)


def until(what: str, check: Callable[[], bool], within_s: float, daemon: Daemon | None = None) -> None:
    """Call `check` until it says yes. Raises SetupError when the time is over or `daemon` has ended."""
    deadline = time.monotonic() + within_s
    while not check():
        if daemon is not None and daemon.pid is None:
            raise SetupError(f"{daemon.name} ended: {daemon.last_words()}")
        if time.monotonic() > deadline:
            told = f"; {daemon.name} says: {daemon.last_words()}" if daemon else ""
            raise SetupError(f"{what} took longer than {within_s:.0f} s{told}")
        time.sleep(0.1)


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None for one that has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
