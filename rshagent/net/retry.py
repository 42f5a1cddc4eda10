"""How long to wait before the next try."""

from __future__ import annotations

import os

_FIRST_S = 0.1
_LONGEST_S = 5.0


class Backoff:
    """Doubling delays with jitter: a thousand launchers that lost one API server must not come back as one."""

    __slots__ = ("_next_s", "tries")

    def __init__(self) -> None:
        self._next_s = _FIRST_S
        self.tries = 0

    def delay_s(self, wished_s: float | None = None) -> float:
        """Return the next delay in seconds; at least what the server wished (Retry-After)."""
        self.tries += 1
        base, self._next_s = self._next_s, min(self._next_s * 2, _LONGEST_S)
        # `random` imports hashlib and more; two bytes of the kernel's are enough.
        jittered = base * (0.5 + int.from_bytes(os.urandom(2), "big") / 65536)
        return max(jittered, wished_s or 0.0)
