"""When leftovers are ended: TERM after a grace, KILL where that didn't help. Pure; the clock is the caller's."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from agents.worker.leftovers import Key, Process

KILL_AFTER_S = 10.0
_LOOK_S = 1.0


class Order(NamedTuple):
    """A signal to be sent."""

    process: Process
    number: signal.Signals


class Cleaner:
    """Follows leftovers from when they are found to their end."""

    def __init__(self, grace_s: float, say: Callable[[str], None]) -> None:
        self._grace_s, self._say = grace_s, say
        self._found: dict[Key, float] = {}
        self._sent: dict[Key, tuple[signal.Signals, float]] = {}
        self._denied: set[Key] = set()
        self._told_uids: set[int] = set()
        self.ended = 0
        """How many were ended by us."""

    @property
    def denied(self) -> int:
        """How many leftovers may not be ended."""
        return len(self._denied)

    def step(self, leftovers: Collection[Process], now: float, *, is_debug: bool = False) -> list[Order]:
        """Take who is left over now; return whom to signal. With is_debug nobody is, and each grace begins anew."""
        self._forget(leftovers)
        if is_debug:
            self._found.clear()
            self._sent.clear()
            return []
        found = [process for process in leftovers if process.key not in self._found]
        self._found |= {process.key: now for process in found}
        if found:
            self._say(f"{_counted(found)} outlived the launch: ended in {self._grace_s:g} s")
        orders = [order for process in leftovers if (order := self._order(process, now)) is not None]
        for number in (signal.SIGTERM, signal.SIGKILL):
            told = [order.process for order in orders if order.number is number]
            if told:
                self._say(f"{number.name} to {_counted(told)}")
        for order in orders:
            self._sent[order.process.key] = (order.number, now)
        return orders

    def deny(self, process: Process, own_uid: int) -> None:
        """Take it that a process may not be signalled by us."""
        self._denied.add(process.key)
        self._sent.pop(process.key, None)
        if process.uid not in self._told_uids:
            self._told_uids.add(process.uid)
            self._say(
                f"uid {process.uid}'s processes can't be ended by uid {own_uid}: {_counted([process])} stays;"
                f" give the worker agent that uid (runAsUser of the pod or of its main container)"
            )

    def next_due(self, now: float) -> float | None:
        """In how many seconds `step` should be called again; None: nothing is under way."""
        due = [
            found + self._grace_s - now for key, found in self._found.items() if key not in self._denied | {*self._sent}
        ]
        # A process that was told to end mostly has, a moment later.
        due += [_LOOK_S for number, _ in self._sent.values() if number is signal.SIGTERM]
        return max(0.0, min(due)) if due else None

    def _order(self, process: Process, now: float) -> Order | None:
        if process.key in self._denied:
            return None
        number, sent = self._sent.get(process.key, (None, 0.0))
        if number is None:
            is_due = now - self._found[process.key] >= self._grace_s
            return Order(process, signal.SIGTERM) if is_due else None
        if number is signal.SIGTERM and now - sent >= KILL_AFTER_S:
            return Order(process, signal.SIGKILL)
        return None

    def _forget(self, leftovers: Collection[Process]) -> None:
        """Count who has ended since, and forget who is none any more."""
        left = {process.key for process in leftovers}
        gone = len(self._sent.keys() - left)
        self.ended += gone
        if gone:
            self._say("the leftover has ended" if gone == 1 else f"{gone} leftovers have ended")
        self._found = {key: value for key, value in self._found.items() if key in left}
        self._sent = {key: value for key, value in self._sent.items() if key in left}
        self._denied &= left


def _counted(processes: Collection[Process]) -> str:
    """Name processes in few words: what they are, and the ids of the first."""
    shown = [
        f"{process.pid} {process.name}{'' if process.rank is None else f' rank {process.rank}'}"
        for process in sorted(processes, key=lambda process: process.pid)
    ]
    more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
    noun = "process" if len(shown) == 1 else f"{len(shown)} processes"
    return f"{noun} ({', '.join(shown[:8])}{more})"
