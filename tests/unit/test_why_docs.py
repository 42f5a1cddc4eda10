"""docs/why.md has the table of broken jobs, which tests/cluster checks on a real cluster."""

from __future__ import annotations

import os

import pytest

from tests.cluster.said import KINDS, Kind

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "why.md")
with open(PAGE, encoding="utf-8") as file:
    ROWS = [line for line in file.read().splitlines() if line.startswith("| ")][1:]


def row(name: str, kind: Kind) -> str:
    """A kind's line of the table."""
    said = [kind.said, *(one for one in kind.otherwise.values() if one is not None)]
    states = dict.fromkeys(state for one in said for state in one.state.split("|"))
    reasons = dict.fromkeys(f"`{reason}`" for one in said for reason in one.reason.split("|") if reason)
    texts = dict.fromkeys(text for one in said for text in one.texts)
    remedies = dict.fromkeys(one.remedy for one in said if one.remedy)
    cells = (name, ", ".join(states), ", ".join(reasons), "; ".join(texts), " ".join(remedies))
    return f"| {' | '.join(cell or '-' for cell in cells)} |"


def test_no_other_kinds() -> None:
    assert len(ROWS) == len(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_kinds_row(name: str) -> None:
    assert row(name, KINDS[name]) in ROWS
