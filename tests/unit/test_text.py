"""What a container said at its end, as one line of a status: its last lines, whatever bytes it wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common.text import last_lines

RULER = "-" * 74
MPIRUN = f"""{RULER}
mpirun detected that one or more processes exited with non-zero status. The first process to do so was:

  Process name: [[24841,1],1]
  Exit code:    3
{RULER}
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        ("no licence\n", "no licence"),
        ("one\ntwo\r\n\n three \n", "one | two | three"),
        (f"{RULER}\n****\n", ""),
        ("\x1b[1;31mTraceback\x1b[0m\n", "Traceback"),
        ("\x1b]0;title\x07\u202ename\x00\n", "?]0;title??name?"),
        ("a\x85b\u2028c", "a | b | c"),
        ("x" * 41, "…" + "x" * 37),
        ("begin\n" * 9 + "the end of it", "…begin | begin | begin | the end of it"),
        ("\n" * 500 + "late", "…late"),
        ("error executing command [/bin/sh -c s3cret]", "error executing command […]"),
        ("error executing command [/bin/sh -c\nKEY=s3cret\nrun]: failed", "error executing command […]: failed"),
        (f"command [/bin/sh -c {'x' * 400} KEY=s3cret run]: failed", "command […]: failed"),
    ],
)
def test_the_last_lines_are_one(output: str, line: str) -> None:
    assert last_lines(output, 40) == line


def test_of_mpiruns_last_words_all_is_kept() -> None:
    assert last_lines(MPIRUN, 384).endswith("Process name: [[24841,1],1] | Exit code: 3")


@given(st.text(), st.integers(min_value=8, max_value=64))
def test_it_is_bounded_and_printable(output: str, most: int) -> None:
    found = last_lines(output, most)
    assert len(found.encode()) <= most
    assert found.isprintable()
