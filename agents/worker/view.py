"""Looks at the pod's processes now and then, and ends what has outlived its launch."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from agents.worker import processes
from agents.worker.cleaner import Cleaner
from agents.worker.leftovers import Family
from rshagent.loop import READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.worker.leftovers import Key, Process
    from rshagent.loop import Loop, Timer

SCAN_S = 15.0
"""Between two looks while nothing is left over."""


class Seen(NamedTuple):
    """What one look has brought."""

    at: float
    processes: list[Process]
    leftovers: frozenset[Key]
    family: Family


class View:
    """The process view of a pod that shares its process namespace."""

    def __init__(self, loop: Loop, grace_s: float, say: Callable[[str], None], is_debug: Callable[[], bool]) -> None:
        self._loop, self._is_debug = loop, is_debug
        self._scan = processes.Scan()
        self._seen: Seen | None = None
        self._remembered: set[Key] = set()
        self._timer: Timer | None = None
        self._pidfds: list[int] = []
        self.cleaner = Cleaner(grace_s, say)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        for pidfd in self._pidfds:
            self._loop.remove(pidfd)
            os.close(pidfd)
        self._pidfds.clear()

    def look(self) -> None:
        """Look now, end whom it is time to end, and look again when something can be due."""
        self._look_again(SCAN_S)
        seen = self.see()
        left = [process for process in seen.processes if process.key in seen.leftovers]
        now = self._loop.now()
        for order in self.cleaner.step(left, now, is_debug=self._is_debug()):
            if not processes.send(order.process, order.number):
                self.cleaner.deny(order.process, os.geteuid())
        due = self.cleaner.next_due(now)
        if due is not None and due < SCAN_S:
            self._look_again(due)

    def see(self, old_s: float = 0.0) -> Seen:
        """Return what is there, by a look that is at most `old_s` old."""
        now = self._loop.now()
        if self._seen is not None and old_s and now - self._seen.at < old_s:
            return self._seen
        found = self._scan.processes(time.time())
        family = Family(found)
        self._remembered &= {process.key for process in found}
        self._remembered |= family.started_by_launch()
        left = frozenset(process.key for process in family.leftovers(self._remembered))
        self._seen = Seen(now, found, left, family)
        return self._seen

    def follow_sshd(self, ended: Callable[[int], None]) -> bool:
        """Call `ended(pid)` once when the sshd that runs now has ended; return whether one is seen."""
        sshd = self.see().family.listener()
        if sshd is None:
            return False
        try:
            pidfd = os.pidfd_open(sshd.pid)
        except OSError:
            return False
        self._pidfds.append(pidfd)
        self._loop.add(pidfd, READ, lambda _events: self._sshd_ended(pidfd, sshd.pid, ended))
        return True

    def state_of_sshd(self) -> str:
        """Say how sshd's process is; empty if none is seen."""
        sshd = self.see().family.listener()
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
