"""The process view of a pod that shares its process namespace: reads /proc by psutil, and terminates orphans."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from agents.common.loop import READ, Loop, Timer
from agents.worker import orphans
from agents.worker.orphans import Key, OrphanCleaner, Process, ProcessTree, Traces

_READ_MAX = 1 << 20  # bytes; an environment has at most a quarter of the stack's limit, usually 2 MiB
_SETTLED_S = 2.0  # after this time a process has made the execve of its launcher


class Scan:
    """Reads all processes; what never changes about one is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Key, str], tuple[Traces, str, bool]] = {}

    def processes(self, now: float) -> list[Process]:
        """Return the processes of this moment; `now` is in seconds since 1970."""
        known, found = self._known, []
        self._known = {}
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError), one.oneshot():
                found.append(self._process(one, known, now))
        return found

    def _process(
        self, one: psutil.Process, known: dict[tuple[Key, str], tuple[Traces, str, bool]], now: float
    ) -> Process:
        name = "".join(char if char.isprintable() else "?" for char in one.name())
        started = one.create_time()
        cpu = one.cpu_times()
        about = ((one.pid, started), name)
        facts = known.get(about)
        if facts is None:
            facts = _facts(one.pid)
        if now - started >= _SETTLED_S:
            self._known[about] = facts
        traces, bootstrap, is_denied = facts
        return Process(
            pid=one.pid,
            ppid=one.ppid(),
            sid=os.getsid(one.pid),
            started=started,
            name=name,
            state=str(one.status()),
            uid=one.uids().effective,
            rss_bytes=one.memory_info().rss,
            cpu_s=cpu.user + cpu.system,
            rank=traces.rank,
            launch=traces.launch,
            bootstrap=bootstrap,
            is_denied=is_denied,
        )


def send(process: Process, number: signal.Signals) -> bool:
    """Send a signal to this very process; return whether we may. One that has ended meanwhile is fine."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if _is_still(process):
            signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(pidfd)
    return True


def _is_still(process: Process) -> bool:
    """Whether its process id is still its own. Ask while a pidfd is open: until then it may be reused."""
    try:
        return bool(psutil.Process(process.pid).create_time() == process.started)
    except psutil.NoSuchProcess:
        return False


def _facts(pid: int) -> tuple[Traces, str, bool]:
    """Return what a process's environment says, whose bootstrap it is, and whether we may not read the environment."""
    bootstrap = orphans.bootstrapped(_read(pid, "cmdline") or b"")
    environ = _read(pid, "environ")
    return (Traces(), bootstrap, True) if environ is None else (orphans.traces(environ), bootstrap, False)


def _read(pid: int, name: str) -> bytes | None:
    """Return a file of a process; None if it is forbidden."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(_READ_MAX)
    except PermissionError:
        return None
    except OSError:
        return b""


SCAN_S = 15.0
"""Between two scans while there are no orphans."""


class Seen(NamedTuple):
    """What one scan found."""

    at: float
    processes: list[Process]
    orphans: frozenset[Key]
    tree: ProcessTree


class ProcessView:
    """The process view of a pod that shares its process namespace."""

    def __init__(self, loop: Loop, grace_s: float, say: Callable[[str], None], is_debug: Callable[[], bool]) -> None:
        self._loop, self._is_debug = loop, is_debug
        self._scan = Scan()
        self._seen: Seen | None = None
        self._remembered: set[Key] = set()
        self._timer: Timer | None = None
        self._pidfds: list[int] = []
        self.cleaner = OrphanCleaner(grace_s, say)

    def close(self) -> None:
        """Stop scanning."""
        if self._timer is not None:
            self._timer.cancel()
        for pidfd in self._pidfds:
            self._loop.remove(pidfd)
            os.close(pidfd)
        self._pidfds.clear()

    def look(self) -> None:
        """Scan now, signal the orphans that are due, and scan again when the next one is."""
        self._look_again(SCAN_S)
        seen = self.see()
        left = [process for process in seen.processes if process.key in seen.orphans]
        now = self._loop.now()
        for one in self.cleaner.step(left, now, is_debug=self._is_debug()):
            if not send(one.process, one.number):
                self.cleaner.deny(one.process, os.geteuid())
        due = self.cleaner.next_due(now)
        if due is not None and due < SCAN_S:
            self._look_again(due)

    def see(self, old_s: float = 0.0) -> Seen:
        """Return the processes, by a scan that is at most `old_s` old."""
        now = self._loop.now()
        if self._seen is not None and old_s and now - self._seen.at < old_s:
            return self._seen
        found = self._scan.processes(time.time())
        tree = ProcessTree(found)
        self._remembered &= {process.key for process in found}
        self._remembered |= tree.started_by_launch()
        left = frozenset(process.key for process in tree.orphans(self._remembered))
        self._seen = Seen(now, found, left, tree)
        return self._seen

    def follow_sshd(self, ended: Callable[[int], None]) -> bool:
        """Call `ended(pid)` once when the sshd that runs now has ended; return whether there is one."""
        sshd = self.see().tree.listener()
        if sshd is None:
            return False
        try:
            pidfd = os.pidfd_open(sshd.pid)
        except OSError:
            return False
        if not _is_still(sshd):
            os.close(pidfd)
            return False
        self._pidfds.append(pidfd)
        self._loop.add(pidfd, READ, lambda _events: self._sshd_ended(pidfd, sshd.pid, ended))
        return True

    def state_of_sshd(self) -> str:
        """Return the state of sshd's process; empty if there is none."""
        sshd = self.see().tree.listener()
        return f"process {sshd.pid} is {sshd.state}" if sshd else ""

    def _look_again(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.look)

    def _sshd_ended(self, pidfd: int, pid: int, ended: Callable[[int], None]) -> None:
        self._loop.remove(pidfd)
        self._pidfds.remove(pidfd)
        os.close(pidfd)
        ended(pid)
