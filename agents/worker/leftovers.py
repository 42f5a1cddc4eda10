"""Which processes have outlived their launch. Pure.

A launch lives as long as what started it in this pod does: sshd's session, or the bootstrap of an exec session. Open
MPI takes leave of both: orted --daemonize makes a session of its own (setsid) and lets the launch's end. So what is in
a launch is left over if

- none of its ancestors is a session of sshd or a bootstrap,
- the topmost of them that belongs to a launch is an orphan whose session leader has ended.

Whoever leads a session of its own means to stay. A daemon that hangs can't be told from one that works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

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
    """The mark of the launch whose bootstrap this is."""
    is_denied: bool = False
    """Whether its environment may not be read: rank and launch are not known then."""

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return self.pid, self.started

    @property
    def is_sshd(self) -> bool:
        """Whether it is one of sshd's own processes."""
        return self.name in _SSHD


class Family:
    """The processes of one moment, and who descends from whom."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._by_pid = {process.pid: process for process in processes}
        self._alive_marks = {process.bootstrap for process in self._by_pid.values() if process.bootstrap}

    def started_by_launch(self) -> set[Key]:
        """Who descends from a session of sshd or a bootstrap: remembered, as an orphan no longer does."""
        return {process.key for process in self._by_pid.values() if not process.is_sshd and self._is_held(process)}

    def leftovers(self, remembered: Collection[Key]) -> list[Process]:
        """Return who has outlived its launch; `remembered` were seen as a launch's before."""
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
        """Return the sshd that no other has started, the oldest of them."""
        found = [process for process in self._by_pid.values() if process.is_sshd and not self._is_sshd(process.ppid)]
        return min(found, key=lambda process: process.started, default=None)

    def _is_left(self, process: Process, members: Mapping[int, Process]) -> bool:
        if self._is_held(process) or process.launch in self._alive_marks:
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
            if parent is None or parent.pid in seen:  # a process id that was given anew while we looked
                return False
            seen.add(parent.pid)
            process = parent

    def _is_sshd(self, pid: int) -> bool:
        found = self._by_pid.get(pid)
        return found is not None and found.is_sshd
