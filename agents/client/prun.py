"""A program in a virtual cluster's DVM, started from outside, and how it is ended. Pure.

A command of `kubectl exec` outlives its client, and prun does not end its job when it is ended itself (PRRTE 3.0.8, by
SIGINT, SIGTERM and SIGHUP). But a DVM ends a job on all nodes when one of its ranks is killed. So ranks are given a
variable, by which they are found.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from agents.job.application import DVM_PATH

_VARIABLE = "MPI_AGENTS_PRUN"
# The shell alone: not every image has grep or pkill. Our own command line has the mark, our environment has not.
_END = """\
for process in /proc/[0-9]*; do
    while IFS= read -r line || [ "$line" ]; do
        case $line in *"$1"*) kill -TERM "${process#/proc/}"; break ;; esac
    done <"$process/environ"
done 2>/dev/null
:
"""


def new_mark() -> str:
    """Return what tells the ranks of one call from all others."""
    return f"{_VARIABLE}={secrets.token_hex(8)}"


def command(mark: str, ranks: int, program: Sequence[str]) -> list[str]:
    """Return what runs a program, with options of prun before it or not, in the DVM of the login pod."""
    return ["prun", "--dvm-uri", f"file:{DVM_PATH}/uri", "-x", mark, "-n", str(ranks), *program]


def end(mark: str) -> list[str]:
    """Return what ends a program's ranks on a node."""
    return ["sh", "-c", _END, "sh", mark]
