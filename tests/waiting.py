"""Waiting for what another process does and nobody tells us of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 60.0
_Found = TypeVar("_Found")


def until(
    condition: Callable[[], _Found | None], what: str | Callable[[], str], deadline_s: float = DEADLINE_S
) -> _Found:
    """Ask again and again until `condition` gives something true, and return that. `what`: for the failure's words."""
    end = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(0.01)
    return found
