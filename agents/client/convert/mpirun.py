"""An mpirun line, split into mpirun's own options and the program. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from agents.client.command_line import values_of

PROGRAMS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})


@dataclass(frozen=True, slots=True)
class Mpirun:
    """An mpirun line: `options` are mpirun's own, each with its values; `home` is where it is installed, or ""."""

    home: str
    options: tuple[tuple[str, ...], ...]
    program: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given; names are without dashes."""
        return any(name_of(option[0]) in names for option in self.options)


def split(words: Sequence[str]) -> Mpirun | None:
    """Return the parts of a command line; None if it is no mpirun's, or has options whose values are not known."""
    if not words or os.path.basename(words[0]) not in PROGRAMS:
        return None
    folder, rest = os.path.dirname(words[0]), list(words[1:])
    if folder and os.path.basename(folder) != "bin":
        return None
    options: list[tuple[str, ...]] = []
    while rest and rest[0].startswith("-"):
        name, has_value = name_of(rest[0]), "=" in rest[0]
        count = 0 if has_value else values_of(name)
        if count is None or len(rest) <= count:
            return None
        options.append(tuple(rest[: count + 1]))
        rest = rest[count + 1 :]
    is_absolute = folder.startswith("/")
    return Mpirun(os.path.dirname(folder) or "/" if is_absolute else "", tuple(options), tuple(rest))


def name_of(option: str) -> str:
    """Return an option's name: Open MPI takes one dash for two."""
    return option.lstrip("-").partition("=")[0]
