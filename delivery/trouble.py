"""Trouble with the API server: what is told of it, and when it ends the wait. Pure.

Being refused for good (403, a certificate that isn't trusted, 401) ends it after a while, as a Role and its binding
take a moment to be known to every API server, and tokens and CAs get renewed. Anything else is tried without end.
"""

from __future__ import annotations

from delivery import durations
from delivery.exits import API_REFUSED, API_SETUP, DeliveryError

REFUSED_S = 5.0
UNAUTHORIZED_S = 60.0
AGAIN_S = 30.0  # the same trouble is told again this often
# Who watches hears of trouble only: silence for as long as a try takes (10 s to connect) means that it works again.
_TRY_S = 12.0


class ApiTrouble:
    """Since when the API server gives trouble, and which. `now` is in seconds of any one monotonic clock."""

    def __init__(self) -> None:
        self._message: str | None = None
        self._began = 0.0
        self._told_at = 0.0
        self._refused: tuple[int, float] | None = None
        self._until = 0.0

    def meet(self, message: str, retry_in_s: float, now: float, *, status: int = 0, is_final: bool = False) -> str:
        """Take a failed request; return the line to tell, "" for none. Raises DeliveryError where it is final."""
        if not self.is_on(now):
            self._message, self._began = None, now
        self._until = now + retry_in_s + _TRY_S
        self._give_up_if_final(message, status, now, is_final=is_final)
        if message == self._message and now - self._told_at < AGAIN_S:
            return ""
        lasted = f", for {durations.words(now - self._began)} now" if message == self._message else ""
        self._message, self._told_at = message, now
        return f"{message}{lasted}; trying again"

    def heal(self, now: float) -> str:
        """Take an answer; return the line to tell, "" if there was no trouble."""
        if self._message is None:
            return ""
        lasted, self._message, self._refused = now - self._began, None, None
        return f"the API server answers again (after {durations.words(lasted)})"

    def is_on(self, now: float) -> bool:
        """Whether the last that was heard is trouble."""
        return self._message is not None and now < self._until

    def words(self, now: float) -> str:
        """Return what to add to a sentence about the wait."""
        return f" · no news from the API server for {durations.words(now - self._began)}" if self.is_on(now) else ""

    def _give_up_if_final(self, message: str, status: int, now: float, *, is_final: bool) -> None:
        if not is_final and status != 401:
            self._refused = None
            return
        if self._refused is None or self._refused[0] != status:
            self._refused = (status, now)
        if now - self._refused[1] >= (UNAUTHORIZED_S if status == 401 else REFUSED_S):
            raise DeliveryError(API_REFUSED if status == 403 else API_SETUP, message)
