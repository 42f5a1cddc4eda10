"""The figures as a table. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.benchmarks import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.report import Figure

MARKERS = ("<!-- make bench-operator: begin -->", "<!-- make bench-operator: end -->")
_HEAD = ("figure", "mpi-operator 0.8.2", "ours", "ratio", "in single runs", "must", "aim", "reached")


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The table's cells, its head first."""
    return [_HEAD, *(_row(figure) for figure in figures)]


def _row(figure: Figure) -> tuple[str, ...]:
    theirs = report.amount(statistics.median(figure.samples[figure.target.peer]), figure.unit)
    return tuple(cell.strip() for cell in (figure.name, theirs, *report.cells(figure)))
