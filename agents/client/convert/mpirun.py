"""An mpirun line, split into mpirun's own options and the program. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

PROGRAMS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})

# Open MPI 4.1 orte/tools/orterun/orterun.c, 5.0 schizo_ompi.c; MPICH and Intel MPI: mpiexec.hydra's utils.
_VALUES = {  # how many words follow an option
    **dict.fromkeys(
        (
            *("n", "np", "c", "N", "npernode", "npersocket", "ppn", "perhost", "x", "map-by", "rank-by", "bind-to"),
            *("H", "host", "hosts", "hostfile", "machinefile", "default-hostfile", "f", "wd", "wdir", "path", "prefix"),
            *("cpus-per-proc", "cpus-per-rank", "cpu-set", "cpu-list", "output-filename", "output", "timeout"),
            *("max-restarts", "tune", "am", "stdin", "personality", "rf", "rankfile", "report-pid", "report-uri"),
            *("launch-agent", "launcher", "iface", "envlist", "genvlist", "outfile-pattern", "errfile-pattern"),
        ),
        1,
    ),
    **dict.fromkeys(("mca", "gmca", "omca", "prtemca", "pmixmca", "gpmixmca", "genv", "env"), 2),
    **dict.fromkeys(
        (
            *("allow-run-as-root", "oversubscribe", "nooversubscribe", "use-hwthread-cpus", "use-hwthreads-as-cpus"),
            *("tag-output", "timestamp-output", "report-bindings", "display-map", "display-allocation", "v", "verbose"),
            *("q", "quiet", "nolocal", "pernode", "bynode", "byslot", "bycore", "bysocket", "bind-to-core"),
            *("bind-to-socket", "bind-to-none", "enable-recovery", "continuous", "forward-signals", "l", "xml"),
            *("merge-stderr-to-stdout", "get-stack-traces", "report-state-on-timeout", "genvall", "genvnone", "envall"),
        ),
        0,
    ),
}


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
        count = 0 if has_value else _VALUES.get(name, -1)
        if count < 0 or len(rest) <= count:
            return None
        options.append(tuple(rest[: count + 1]))
        rest = rest[count + 1 :]
    is_absolute = folder.startswith("/")
    return Mpirun(os.path.dirname(folder) or "/" if is_absolute else "", tuple(options), tuple(rest))


def name_of(option: str) -> str:
    """Return an option's name: Open MPI takes one dash for two."""
    return option.lstrip("-").partition("=")[0]
