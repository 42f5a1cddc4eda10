"""The processes of the pod, where it shares its process namespace: read from /proc by psutil, and signalled."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

from agents.worker import launches
from agents.worker.launches import Traces
from agents.worker.leftovers import Key, Process

_READ_MAX = 1 << 20  # bytes; an environment has at most a quarter of the stack's limit, 2 MiB mostly
_SETTLED_S = 2.0  # a process this old has done the execve of its launcher


class Scan:
    """Sees all processes; what never changes about one is read once."""

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
        # Behind the descriptor nobody else can take its place; before it, somebody could have.
        if psutil.Process(process.pid).create_time() == process.started:
            signal.pidfd_send_signal(pidfd, number)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return True
    except PermissionError:
        return False
    finally:
        os.close(pidfd)
    return True


def _facts(pid: int) -> tuple[Traces, str, bool]:
    """Return what a process's memory tells, whose bootstrap it is, and whether its environment is closed to us."""
    bootstrap = launches.bootstrapped(_read(pid, "cmdline") or b"")
    environ = _read(pid, "environ")
    return (Traces(), bootstrap, True) if environ is None else (launches.traces(environ), bootstrap, False)


def _read(pid: int, name: str) -> bytes | None:
    """Return a file of a process; None if it is forbidden."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(_READ_MAX)
    except PermissionError:
        return None
    except OSError:
        return b""
