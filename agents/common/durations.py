"""Durations, in Go's notation and in words."""

from __future__ import annotations

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)")


def parse(text: str) -> float:
    """Return the seconds of `90`, `90s`, `10m`, `1h30m` or `1.5 h`. Raises ValueError."""
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped, re.ASCII):
        return float(stripped)
    parts = _PART.findall(stripped)
    if not parts or _PART.sub("", stripped).strip() or not stripped.isascii():
        raise ValueError(f"{text!r} is not a duration like 90s, 10m or 1h30m")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def words(seconds: float) -> str:
    """Return `41 s`, `3 min 20 s` or `2 h 5 min`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole // 60, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"
