"""Orphans: processes that outlived their launch, and when they are terminated. Pure; the clock is the caller's.

A launch lives as long as what started it in this pod does: sshd's session, or the bootstrap of an exec session. Open
MPI leaves both: orted --daemonize makes a session of its own (setsid) and lets the launch's end. So a process of a
launch is an orphan if

- none of its ancestors is a session of sshd or a bootstrap, and
- the topmost of them that belongs to a launch has no parent there any more, and its session leader has ended.

A process that leads a session of its own intends to stay. A daemon that hangs looks like one that works.

Which launch a process belongs to, and which rank it is, is read from its environment and command line.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

# Open MPI 4 and 5; PMIx (PRRTE, Slurm); Hydra: MPICH and Intel MPI. The first that is there counts.
RANKS = (b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK", b"PMI_RANK")
_MARK = b"MPI_AGENT_MARK"
"""rshagent.call.bootstrap: in the environment of all that a launch starts, and in its bootstrap's command line."""
_SSH = b"SSH_CONNECTION"
_RANK_DIGITS = 9  # PMIx writes 2^32-1 and values near it for what is no rank


class Traces(NamedTuple):
    """Where a process comes from, by its environment."""

    rank: int | None = None
    launch: str = ""
    """The tag of an exec session, or `ssh`; empty: no launch is known."""


def traces(environ: bytes) -> Traces:
    """Read the content of /proc/PID/environ."""
    found: dict[bytes, bytes] = {}
    for entry in environ.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in _WANTED:
            found.setdefault(name, value)  # getenv takes the first of two
    mark = found.get(_MARK, b"").decode("ascii", "replace")
    return Traces(_rank(found), mark or ("ssh" if found.get(_SSH) else ""))


def bootstrapped(command_line: bytes) -> str:
    """Return the process tag of the launch whose bootstrap this is, by /proc/PID/cmdline; empty: it is none."""
    _, found, after = command_line.partition(b"export " + _MARK + b"=")
    mark, end, _ = after.partition(b";")
    return mark.decode("ascii", "replace") if found and end else ""


def session(launch: str) -> str:
    """Return a launch's short name: that of the exec session, or `ssh`."""
    return launch.rstrip(":").rpartition(":")[2]


_WANTED = frozenset((*RANKS, _MARK, _SSH))


def _rank(found: dict[bytes, bytes]) -> int | None:
    for name in RANKS:
        text = found.get(name, b"")
        if text.isdigit() and len(text) <= _RANK_DIGITS:
            return int(text)
    return None


Key = tuple[int, float]
"""A process id and when its process was started: no two processes have both."""

ZOMBIE = "zombie"
_SSHD = ("sshd", "sshd-session", "sshd-auth")  # OpenSSH 9.8 has a program for each


class Process(NamedTuple):
    """A process as seen at one moment."""

    pid: int
    ppid: int
    sid: int
    """Its session; 0 where that isn't to be seen from this namespace."""
    started: float
    name: str
    state: str = "sleeping"
    uid: int = 0
    rss_bytes: int = 0
    cpu_s: float = 0.0
    rank: int | None = None
    launch: str = ""
    bootstrap: str = ""
    """The process tag of the launch whose bootstrap this is."""
    is_denied: bool = False
    """Whether its environment may not be read: rank and launch are not known then."""

    @property
    def key(self) -> Key:
        """Its identity: no other process has the same."""
        return self.pid, self.started

    @property
    def is_sshd(self) -> bool:
        """Whether it is one of sshd's own processes."""
        return self.name in _SSHD


class ProcessTree:
    """The processes of one moment, with their parents."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._by_pid = {process.pid: process for process in processes}
        self._live_tags = {process.bootstrap for process in self._by_pid.values() if process.bootstrap}

    def started_by_launch(self) -> set[Key]:
        """Return the descendants of sshd sessions and bootstraps. To be remembered: an orphan doesn't show it."""
        return {process.key for process in self._by_pid.values() if not process.is_sshd and self._is_held(process)}

    def orphans(self, remembered: Collection[Key]) -> list[Process]:
        """Return the processes that outlived their launch; `remembered` were seen as a launch's before."""
        members = {
            process.pid: process
            for process in self._by_pid.values()
            if (process.launch or process.key in remembered)
            and not process.is_sshd
            and not process.bootstrap
            and process.state != ZOMBIE
        }
        return [process for process in members.values() if self._is_left(process, members)]

    def listener(self) -> Process | None:
        """Return the oldest running sshd that no other sshd has started."""
        found = [
            process
            for process in self._by_pid.values()
            if process.name == "sshd" and process.state != ZOMBIE and not self._is_sshd(process.ppid)
        ]
        return min(found, key=lambda process: process.started, default=None)

    def _is_left(self, process: Process, members: Mapping[int, Process]) -> bool:
        if self._is_held(process) or process.launch in self._live_tags:
            return False
        top, seen = process, {process.pid}
        while top.ppid in members and top.ppid not in seen:
            top = members[top.ppid]
            seen.add(top.pid)
        leader = self._by_pid.get(top.sid)
        return top.sid > 0 and (leader is None or leader.state == ZOMBIE)

    def _is_held(self, process: Process) -> bool:
        """Whether an ancestor, or it itself, is a bootstrap or a session of sshd."""
        seen = {process.pid}
        while True:
            if process.bootstrap or (process.is_sshd and self._is_sshd(process.ppid)):
                return True
            parent = self._by_pid.get(process.ppid)
            if parent is None or parent.pid in seen:  # a process id that was reused during the scan
                return False
            seen.add(parent.pid)
            process = parent

    def _is_sshd(self, pid: int) -> bool:
        found = self._by_pid.get(pid)
        return found is not None and found.is_sshd


KILL_AFTER_S = 10.0
_LOOK_S = 1.0


class Signal(NamedTuple):
    """A signal to be sent."""

    process: Process
    number: signal.Signals


class OrphanCleaner:
    """Follows orphans from when they are found to their end: TERM after a grace period, KILL if that had no effect."""

    def __init__(self, grace_s: float, say: Callable[[str], None]) -> None:
        self._grace_s, self._say = grace_s, say
        self._found: dict[Key, float] = {}
        self._sent: dict[Key, tuple[signal.Signals, float]] = {}
        self._denied: set[Key] = set()
        self._logged_uids: set[int] = set()
        self.ended = 0
        """How many we terminated."""

    @property
    def denied(self) -> int:
        """How many orphans we may not signal."""
        return len(self._denied)

    def step(self, orphans: Collection[Process], now: float, *, is_debug: bool = False) -> list[Signal]:
        """Take the orphans of this moment; return the signals to send. None with is_debug, and each grace restarts."""
        self._forget(orphans)
        if is_debug:
            self._found.clear()
            self._sent.clear()
            return []
        found = [process for process in orphans if process.key not in self._found]
        self._found |= {process.key: now for process in found}
        if found:
            self._say(f"{_counted(found)} outlived the launch: terminating in {self._grace_s:g} s")
        signals = [due for process in orphans if (due := self._due_signal(process, now)) is not None]
        for number in (signal.SIGTERM, signal.SIGKILL):
            targets = [one.process for one in signals if one.number is number]
            if targets:
                self._say(f"{number.name} to {_counted(targets)}")
        for one in signals:
            self._sent[one.process.key] = (one.number, now)
        return signals

    def deny(self, process: Process, own_uid: int) -> None:
        """Note that we may not signal a process."""
        self._denied.add(process.key)
        self._sent.pop(process.key, None)
        if process.uid not in self._logged_uids:
            self._logged_uids.add(process.uid)
            self._say(
                f"uid {process.uid}'s processes can't be ended by uid {own_uid}: {_counted([process])} stays;"
                f" run the worker agent with that uid (runAsUser of the pod or of its main container)"
            )

    def next_due(self, now: float) -> float | None:
        """Return after how many seconds to call `step` again; None: there is nothing to do."""
        due = [
            found + self._grace_s - now for key, found in self._found.items() if key not in self._denied | {*self._sent}
        ]
        # A process that got a signal has usually ended a moment later.
        due += [_LOOK_S for number, _ in self._sent.values() if number is signal.SIGTERM]
        return max(0.0, min(due)) if due else None

    def _due_signal(self, process: Process, now: float) -> Signal | None:
        if process.key in self._denied:
            return None
        number, sent = self._sent.get(process.key, (None, 0.0))
        if number is None:
            is_due = now - self._found[process.key] >= self._grace_s
            return Signal(process, signal.SIGTERM) if is_due else None
        if number is signal.SIGTERM and now - sent >= KILL_AFTER_S:
            return Signal(process, signal.SIGKILL)
        return None

    def _forget(self, orphans: Collection[Process]) -> None:
        """Count those that have ended since, and forget those that are no orphans any more."""
        left = {process.key for process in orphans}
        gone = len(self._sent.keys() - left)
        self.ended += gone
        if gone:
            self._say("the orphan has ended" if gone == 1 else f"{gone} orphans have ended")
        self._found = {key: value for key, value in self._found.items() if key in left}
        self._sent = {key: value for key, value in self._sent.items() if key in left}
        self._denied &= left


def _counted(processes: Collection[Process]) -> str:
    """Return a short list of processes: their ids, names and ranks."""
    shown = [
        f"{process.pid} {process.name}{'' if process.rank is None else f' rank {process.rank}'}"
        for process in sorted(processes, key=lambda process: process.pid)
    ]
    more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
    noun = "process" if len(shown) == 1 else f"{len(shown)} processes"
    return f"{noun} ({', '.join(shown[:8])}{more})"
