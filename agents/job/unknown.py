"""Names in a job that nothing reads, with the closest one that something does. Pure.

An annotation under our prefix and a replica type are always reported. A field is if it resembles a known one of
the same object: kubeflow may get fields that we don't know. What a definition's schema doesn't know never gets to the
operator, but to who reads a file.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from agents.job.model import PREFIX, Problem

_LOOKED_AT_MAX = 32  # names in one object: a comparison takes some 10 µs, and an object may have thousands of names
_NAME_MAX = 63  # characters that are shown, and compared
_CLOSE, _VERY_CLOSE = 0.7, 0.8  # difflib's ratio


def ignored_annotations(path: str, names: Iterable[str], known: Collection[str]) -> list[Problem]:
    """Return those of our annotations that are not known."""
    ours = islice((name for name in names if name.startswith(PREFIX) and name not in known), _LOOKED_AT_MAX)
    bare = [one.removeprefix(PREFIX) for one in known]
    close = ((name, closest(name.removeprefix(PREFIX), bare)) for name in ours)
    return [_problem(f"{path}[{name[:_NAME_MAX]}]", f"{PREFIX}{meant}" if meant else "") for name, meant in close]


def ignored_types(path: str, names: Iterable[str], known: Collection[str]) -> list[Problem]:
    """Return replica types that are not known."""
    others = (name for name in names if name not in known)
    return [_problem(f"{path}[{name[:_NAME_MAX]}]", closest(name, known)) for name in islice(others, _LOOKED_AT_MAX)]


def misspelt_fields(path: str, names: Iterable[str], known: Collection[str]) -> list[Problem]:
    """Return fields that resemble a known one."""
    others = islice((name for name in names if name not in known), _LOOKED_AT_MAX)
    close = ((name, closest(name, known, _VERY_CLOSE)) for name in others)
    return [_problem(f"{path}.{name[:_NAME_MAX]}", meant) for name, meant in close if meant]


def closest(name: str, known: Iterable[str], cutoff: float = _CLOSE) -> str:
    """Return the known name that this one resembles most, "" if none does."""
    folded: Mapping[str, str] = {one.casefold(): one for one in known}
    found = difflib.get_close_matches(name[: 2 * _NAME_MAX].casefold(), folded, 1, cutoff)
    return folded[found[0]] if found else ""


def _problem(path: str, meant: str) -> Problem:
    return Problem(path, f"is unknown and ignored{f'; did you mean {meant}?' if meant else ''}")
