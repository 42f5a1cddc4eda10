"""The figures as a table. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.benchmarks import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.report import Figure

MARKERS = ("<!-- make bench-cluster: begin -->", "<!-- make bench-cluster: end -->")
_HEAD = ("figure", "beside", "takes", "ours", "ratio", "in single runs", "must", "aim", "reached")
_PEERS = {"kubectl": "kubectl", "bare": "a bare socket client"}


def plain(figures: Sequence[Figure]) -> str:
    """For a terminal."""
    return report.plain(_rows(figures))


def markdown(figures: Sequence[Figure]) -> str:
    """For the docs: the figures that have a goal."""
    return report.markdown(_rows([figure for figure in figures if figure.target.must is not None]))


def _rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    return [_HEAD, *(_row(figure) for figure in figures)]


def _row(figure: Figure) -> tuple[str, ...]:
    target, peer = figure.target, figure.samples.get(figure.target.peer)
    beside = (_PEERS[target.peer], report.amount(statistics.median(peer), figure.unit)) if peer else ("", "")
    return (figure.name, *beside, *report.cells(figure))
