"""The lines of one rank in a launcher's output. Texts are recorded from those that test_launchers_tags.py runs."""

from __future__ import annotations

import pytest

from agents.client.errors import NotFoundError
from agents.client.tags import RankOutput
from agents.job.model import Implementation

OPEN_MPI, MPICH, INTEL = Implementation.OPEN_MPI, Implementation.MPICH, Implementation.INTEL
OPEN_MPI_4 = """\
[tagged-launcher:00005] plm:rsh: Warning: setpgid(9,9) failed in parent with errno=Permission denied(13)
[1,0]<stdout>:plain 0
[1,0]<stdout>:  indented 0
[1,0]<stdout>:
[1,0]<stdout>:[1] own text of 0
[1,1]<stdout>:plain 1
[1,0]<stdout>:begin 0 ... [1,1]<stdout>:begin 1 ... [1,0]<stdout>:end 0
[1,1]<stdout>:end 1
[1,0]<stdout>:two 0
[1,0]<stdout>:lines 0, cut he[1,1]<stdout>:two 1
[1,0]<stderr>:error 0
[1,1]<stdout>:lines 1, cut he[1,0]<stdout>:re 0
[1,0]<stdout>:last 0[1,1]<stdout>:re 1
[1,1]<stdout>:last 1"""
OPEN_MPI_5 = """\
[1,0]<stdout>: plain 0
[1,0]<stdout>:   indented 0
[1,0]<stdout>:\x20
[1,1]<stdout>: plain 1
[1,0]<stdout>: last 0[1,1]<stdout>: last 1"""
OTHER_FORMS_OF_5 = """\
[prterun-vm-8190@1,3]<stdout>: hi
[prterun-vm-8190@1,3]<stderr>: err
[1,3][vm:8203]<stdout>: hi
[Thu Nov 26 13:58:47 2026][1,3]<stdout>: hi"""
HOROVOD = """\
[1]<stdout>:  indented 1
[0]<stdout>:begin 0 ... end 0
[1]<stderr>:error 1
[1]<stdout>:last 1[0]<stdout>:last 0"""
PATTERN = """\
[1]<output>:begin 1 ... [0]<output>:begin 0 ... [1]<output>:end 1
[0]<output>:end 0
[0]<output>:a[1] = 5"""
PREPENDED = """\
[1] plain 1
[1]   indented 1
[1]\x20
[1] [0] own text of 1
[0] plain 0
[0] a[1] = 5
[mpiexec@vm] a line of the launcher's"""


@pytest.mark.parametrize(
    ("implementation", "output", "rank", "lines"),
    [
        (
            *(OPEN_MPI, OPEN_MPI_4, 0),
            [
                *("plain 0", "  indented 0", "", "[1] own text of 0", "begin 0 ... end 0", "two 0", "error 0"),
                *("lines 0, cut here 0", "last 0"),
            ],
        ),
        (OPEN_MPI, OPEN_MPI_4, 1, ["plain 1", "begin 1 ... end 1", "two 1", "lines 1, cut here 1", "last 1"]),
        (OPEN_MPI, OPEN_MPI_4, 10, []),
        (OPEN_MPI, OPEN_MPI_5, 0, ["plain 0", "  indented 0", "", "last 0"]),
        (OPEN_MPI, OPEN_MPI_5, 1, ["plain 1", "last 1"]),
        (OPEN_MPI, OTHER_FORMS_OF_5, 3, ["hi", "err", "hi", "hi"]),
        (OPEN_MPI, HOROVOD, 1, ["  indented 1", "error 1", "last 1"]),
        (MPICH, PATTERN, 0, ["begin 0 ... end 0", "a[1] = 5"]),
        (INTEL, PATTERN, 1, ["begin 1 ... end 1"]),
        (INTEL, PREPENDED, 1, ["plain 1", "  indented 1", "", "[0] own text of 1"]),
        (MPICH, PREPENDED, 0, ["plain 0", "a[1] = 5"]),
        (MPICH, "", 0, []),
    ],
)
def test_lines_of_a_rank(implementation: Implementation, output: str, rank: int, lines: list[str]) -> None:
    assert [*RankOutput(rank, implementation).lines(output.splitlines())] == lines


@pytest.mark.parametrize(
    ("implementation", "output", "remedy"),
    [
        (OPEN_MPI, PREPENDED, r"set spec\.tagOutput: true \(Open MPI 4\.1\), or call `mpirun --tag-output`"),
        (MPICH, "a[1] = 5", r"set spec\.tagOutput: true, or call `mpiexec -prepend-rank`"),
        (INTEL, "hi", r"no line of the output names its rank: call `mpiexec -prepend-rank`"),
    ],
)
def test_output_without_tags(implementation: Implementation, output: str, remedy: str) -> None:
    """A program's own `[1] ` is none under Open MPI."""
    with pytest.raises(NotFoundError, match=remedy):
        [*RankOutput(1, implementation).lines(output.splitlines())]


def test_a_line_that_does_not_end_is_bounded() -> None:
    """As a progress bar's, to which ranks take turns to add."""
    output = RankOutput(0, OPEN_MPI)
    pieces = [output.feed(f"[1,0]<stdout>:{'.' * 30_000}[1,1]<stdout>:") for _ in range(5)]
    assert [len(line) for found in pieces for line in found] == [90_000]
    assert [len(line) for line in output.end()] == [60_000]
