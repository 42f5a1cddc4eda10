"""A work queue: which jobs to plan, and when. No I/O; the clock is an argument.

As client-go's work queue: a key is planned by one worker at a time, a key that is added while it is being planned is
planned once more afterwards, and keys that are added many times are planned once. Only failures wait longer each time.

Unlike there, the namespaces take turns, and of large jobs one is planned at a time: however many jobs a namespace has
and however large they are, those of others are planned beside them.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_FIRST_RETRY_S = 0.05
LAST_RETRY_S = 60.0
_LONGEST_WAIT_S = 3600.0  # at a time: a deadline in a thousand years is more than a thread can wait for


class _Turns(Generic[Key]):
    """Keys in order of arrival; the groups that `turn` puts them into take turns."""

    def __init__(self, turn: Callable[[Key], Hashable]) -> None:
        self._turn = turn
        self._keys: dict[Hashable, deque[Key]] = {}  # in the order of their turns

    def __bool__(self) -> bool:
        return bool(self._keys)

    def put(self, key: Key) -> None:
        self._keys.setdefault(self._turn(key), deque()).append(key)

    def pop(self) -> Key:
        group = next(iter(self._keys))
        keys = self._keys.pop(group)
        key = keys.popleft()
        if keys:
            self._keys[group] = keys
        return key


class Queue(Generic[Key]):
    """Keys that are due, being worked on, or due later. Safe to be used by many threads."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        *,
        turn: Callable[[Key], Hashable] = lambda _key: None,
        is_large: Callable[[Key], bool] = lambda _key: False,
    ) -> None:
        """`turn(key)`: those of one turn wait for each other. `is_large(key)`: no other large one at the same time."""
        self._clock, self._chance, self._is_large = clock, chance, is_large
        self._condition = threading.Condition()
        self._small, self._large = _Turns[Key](turn), _Turns[Key](turn)  # that are ready
        self._large_key: Key | None = None  # that is being worked on
        self._was_large = False
        self._dirty: set[Key] = set()  # to be worked on, now or once those being worked on are done
        self._working: set[Key] = set()
        self._later: list[tuple[float, int, Key]] = []  # a heap; an entry counts if `_due` says the same time
        self._due: dict[Key, float] = {}
        self._number = 0
        self._failures: dict[Key, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many keys are due and not yet being worked on."""
        with self._condition:
            self._move_due()
            return len(self._dirty)

    def next_at(self) -> float | None:
        """When the next key that is not due yet will be; None if none will."""
        with self._condition:
            return min(self._due.values(), default=None)

    def add(self, key: Key) -> None:
        """Have a key worked on as soon as may be."""
        with self._condition:
            self._add(key)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Have a key worked on in a while; the earliest of several times counts."""
        with self._condition:
            if delay_s <= 0:
                self._add(key)
                return
            due = self._clock() + delay_s
            if not self._closed and due < self._due.get(key, float("inf")):
                self._due[key] = due
                self._number += 1
                heapq.heappush(self._later, (due, self._number, key))
                self._condition.notify()

    def retry(self, key: Key, at_least_s: float = 0.0) -> float:
        """Have a key worked on after a failure, later each time; return in how many seconds."""
        with self._condition:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        full_s = min(_FIRST_RETRY_S * 2.0 ** min(failures, 32), LAST_RETRY_S)
        delay_s = max(full_s * (0.5 + self._chance() / 2), at_least_s)
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: Key) -> None:
        """Take a key's failures as over."""
        with self._condition:
            self._failures.pop(key, None)

    def get(self, timeout_s: float | None = None) -> Key | None:
        """Return the next key, which is the caller's until `done`; None when closed or after the time-out."""
        limit = None if timeout_s is None else self._clock() + timeout_s
        with self._condition:
            while True:
                self._move_due()
                if self._closed:
                    return None
                key = self._next()
                if key is not None:
                    self._dirty.discard(key)
                    self._working.add(key)
                    return key
                now = self._clock()
                if limit is not None and now >= limit:
                    return None
                wakes = [limit] if limit is not None else []
                wakes += [self._later[0][0]] if self._later else []
                self._condition.wait(min(min(wakes) - now, _LONGEST_WAIT_S) if wakes else None)

    def done(self, key: Key) -> None:
        """Say that the work on a key is over."""
        with self._condition:
            self._working.discard(key)
            if key == self._large_key:
                self._large_key = None
                self._condition.notify()
            if key in self._dirty:
                self._small.put(key)
                self._condition.notify()

    def close(self) -> None:
        """Return no more keys, and wake the threads that wait."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _add(self, key: Key) -> None:
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._small.put(key)
            self._condition.notify()

    def _next(self) -> Key | None:
        """Take the next key that is ready. Large and small ones take turns, for a single worker's sake."""
        while True:
            if self._large and self._large_key is None and not (self._was_large and self._small):
                self._was_large = True
                self._large_key = key = self._large.pop()
                return key
            if not self._small:
                return None
            key = self._small.pop()
            if not self._is_large(key):
                self._was_large = False
                return key
            self._large.put(key)

    def _move_due(self) -> None:
        while self._later and self._later[0][0] <= self._clock():
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self._add(key)
