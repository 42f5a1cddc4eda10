"""One wanted worker: what is known of its sshd, what it lacks, and when it is looked at again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delivery.sshd import pace, words
from delivery.sshd.answer import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delivery.lack import Lack
    from delivery.sshd.answer import Answer
    from delivery.sshd.lookups import Address, Found

_NEVER = float("-inf")
_MOVED = frozenset({Kind.TIMED_OUT, Kind.UNREACHABLE})  # a pod of another address may be in its place


class Worker:
    """A host of the hostfile. `now` is in seconds of any one monotonic clock; `waiting`: how many lack something."""

    def __init__(self, host: str, now: float) -> None:
        self.host = host
        self.name = host  # as people call it
        self.addresses: tuple[Address, ...] = ()
        self.port = 0  # where its sshd answered
        self.is_wanted = True
        self.is_busy = False  # it is looked at, or is the next to be
        self._is_doubted = False  # its name is to be asked for anew, whatever is known of it
        self._looked_up_at = self._answered_at = _NEVER
        self._asked_at = now  # for its address, whether or not there was one
        self._answer: Answer | None = None
        self._kind = ""  # of what it lacks
        self._since = now  # it lacks it

    @property
    def mark(self) -> str:
        """What tells one pod from another in its place."""
        return " ".join(sorted(address.host for address in self.addresses))

    def wants_look_up(self, now: float, waiting: int) -> bool:
        """Whether its address is not known, or may be another by now."""
        has_moved = self._answer is not None and self._answer.kind in _MOVED
        is_old = now - self._looked_up_at >= pace.address_s(now - self._since, waiting)
        return not self.addresses or has_moved or is_old or self._is_doubted

    def wants_address(self, now: float) -> bool:
        """Whether the look-up is for an address, and not only for whether the name is there (`dns`)."""
        return (bool(self.addresses) and not self._is_doubted) or now - self._asked_at >= pace.ASK_ANYWAY_S

    def is_missing(self, now: float) -> Lack:
        """Take it that its name is not there."""
        self.addresses, self._is_doubted = (), False
        return words.no_name(now - self._since, was_there=self._looked_up_at > _NEVER)

    def found(self, found: Found, now: float) -> Lack | None:
        """Take what a look-up brought; None: there is an address to connect to, maybe the one from before."""
        self._asked_at, self._is_doubted = now, False
        if found.addresses or not found.trouble:
            self.addresses = found.addresses
        if self.addresses:
            self._looked_up_at = now
            return None
        if found.trouble:
            return words.no_lookup(found.trouble, now - self._since)
        return self.is_missing(now)

    def connect_s(self, now: float) -> float:
        """Return how long a connection may take."""
        return pace.connect_s(now - self._since)

    def answered(self, answer: Answer, ports: Sequence[int], now: float) -> Lack | None:
        """Take what came of connecting; None: an sshd is there."""
        self._answer = answer
        if answer.kind is Kind.READY:
            self.port, self._answered_at = answer.port, now
        return words.lack_of(answer, ports, now - self._since)

    def lacks(self, lack: Lack | None, now: float) -> None:
        """Take what it lacks by the last look."""
        kind = lack.kind if lack else ""
        if kind != self._kind:
            self._kind, self._since = kind, now

    def pause_s(self, now: float, waiting: int) -> float:
        """Return how long to wait before the next look."""
        return pace.pause_s(now - self._since, waiting, has_address=bool(self.addresses))

    def is_doubted(self, now: float, workers: int) -> bool:
        """Whether it answered so long ago that its sshd or its name may be gone: then it is looked up anew."""
        self._is_doubted = now - self._answered_at >= pace.check_again_s(workers)
        return self._is_doubted
