"""An mpirun line, split into mpirun's own options and the program. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agents.client.command_line import Line, line_of

PROGRAMS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})


def split(words: Sequence[str]) -> tuple[str, Line] | None:
    """Return where mpirun is installed, or "", and the words after it.

    None if the command line is no mpirun's, or has options whose values are not known.
    """
    if not words or os.path.basename(words[0]) not in PROGRAMS:
        return None
    folder, line = os.path.dirname(words[0]), line_of(words[1:])
    if (folder and os.path.basename(folder) != "bin") or not line.is_known:
        return None
    return (os.path.dirname(folder) or "/" if folder.startswith("/") else ""), line
