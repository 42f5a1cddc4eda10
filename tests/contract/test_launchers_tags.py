"""Real launchers: the tags of their output, in which the client finds each rank's own lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from launching import ALL, gate, start

from agents.client.tags import RankOutput
from agents.job.model import Implementation
from agents.job.tags import OPTIONS
from agents.playground.launchers import LAUNCHERS
from tests.waiting import until

if TYPE_CHECKING:
    from launching import Gate, Start

__all__ = ["gate", "start"]

PROGRAM = r"""
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$HOROVOD_RANK}}
echo "plain $rank"; echo "  indented"; echo; echo "[1] own text"
printf 'begin ... '; echo up >&2; read -r _ < "$1"; echo "end $rank"
head -c 5000 /dev/zero | tr '\0' x; echo
printf 'last'
"""


@pytest.mark.parametrize("name", ALL)
def test_lines_of_each_rank(start: Start, name: str, gate: Gate) -> None:
    """Also those that ranks write in turns, that come in several pieces, and that have no end."""
    implementation = Implementation(LAUNCHERS[name].implementation)
    options = () if name == "horovod" else OPTIONS[implementation]
    running = start(name, *options, "sh", "-c", PROGRAM, "sh", gate.path)
    until(lambda: running.errors.count("up\n") == 2, "both ranks have begun a line")
    gate.open()
    assert running.end() == 0, running.errors
    for rank in range(2):
        assert [*RankOutput(rank, implementation).lines(running.output.splitlines())] == [
            *(f"plain {rank}", "  indented", "", "[1] own text", f"begin ... end {rank}", "x" * 5000, "last")
        ]
