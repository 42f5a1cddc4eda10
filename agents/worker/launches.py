"""Which launch a process belongs to, and which rank it is, by its environment and command line. Pure."""

from __future__ import annotations

from typing import NamedTuple

# Open MPI 4 and 5; PMIx (PRRTE, Slurm); Hydra: MPICH and Intel MPI. The first that is there counts.
RANKS = (b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK", b"PMI_RANK")
_MARK = b"MPI_AGENT_MARK"
"""rshagent.bootstrap: in the environment of all that a launch has started, in the command line of its bootstrap."""
_SSH = b"SSH_CONNECTION"
_RANK_DIGITS = 9  # PMIx writes 2^32-1 and its neighbours for what is no rank


class Traces(NamedTuple):
    """What a process's own memory tells of where it comes from."""

    rank: int | None = None
    launch: str = ""
    """The mark of an exec session, or `ssh`; empty: of no launch that can be seen."""


def traces(environ: bytes) -> Traces:
    """Read the content of /proc/PID/environ."""
    found: dict[bytes, bytes] = {}
    for entry in environ.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in _WANTED:
            found.setdefault(name, value)  # getenv takes the first of two
    mark = found.get(_MARK, b"").decode("ascii", "replace")
    return Traces(_rank(found), mark or ("ssh" if found.get(_SSH) else ""))


def bootstrapped(command_line: bytes) -> str:
    """Return the mark of the launch whose bootstrap this is, by /proc/PID/cmdline; empty: it is none."""
    _, found, after = command_line.partition(b"export " + _MARK + b"=")
    mark, end, _ = after.partition(b";")
    return mark.decode("ascii", "replace") if found and end else ""


def session(launch: str) -> str:
    """Return how a launch is called in few words: an exec session's own name, or `ssh`."""
    return launch.rstrip(":").rpartition(":")[2]


_WANTED = frozenset((*RANKS, _MARK, _SSH))


def _rank(found: dict[bytes, bytes]) -> int | None:
    for name in RANKS:
        text = found.get(name, b"")
        if text.isdigit() and len(text) <= _RANK_DIGITS:
            return int(text)
    return None
