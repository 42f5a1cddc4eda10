"""Figures as a table: plain text for a terminal, Markdown for docs/performance.md. Pure, except writing the file."""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING, NamedTuple

from .measure import ROOT, BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AS_FRACTION, AS_DECIMAL = "fraction", "decimal"  # how a ratio is written: 1/31 or 0.24

DOC = os.path.join(ROOT, "docs", "performance.md")
_HEAD = ("figure", "beside", "takes", "ours", "ratio", "in single runs", "must", "aim", "reached")


class Target(NamedTuple):
    """Which mode is measured against what; without must and aim it is for information."""

    mode: str
    must: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    is_ratio: bool = True  # to the peer's; else an amount
    peer: str = "kubectl"


class Figure(NamedTuple):
    """One line of the table: the samples of all rounds, by peer."""

    name: str
    unit: str
    samples: Mapping[str, Sequence[float]]
    target: Target
    form: str = AS_DECIMAL

    @property
    def value(self) -> float:
        """What is compared with the target: the ratio of the medians, or the median itself."""
        ours = statistics.median(self.samples[self.target.mode])
        return ours / statistics.median(self.samples[self.target.peer]) if self.target.is_ratio else ours

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value of a single round."""
        ours = self.samples[self.target.mode]
        if not self.target.is_ratio:
            return min(ours), max(ours)
        ratios = [own / peer for own, peer in zip(ours, self.samples[self.target.peer], strict=True)]
        return min(ratios), max(ratios)

    @property
    def reached(self) -> str:
        """aim, must, or NO."""
        if self.target.must is None or self.target.aim is None:
            return ""
        sign = -1 if self.target.more_is_better else 1
        if sign * self.value <= sign * self.target.aim:
            return "aim"
        return "must" if sign * self.value <= sign * self.target.must else "NO"


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The table's cells, its head first."""
    return [_HEAD, *(_row(figure) for figure in figures)]


def plain(table: Sequence[tuple[str, ...]]) -> str:
    """A table in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [table[0], tuple("-" * width for width in widths), *table[1:]]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines
    )


def markdown(table: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (table[0], ("---",) * len(table[0]), *table[1:]))


def write(path: str, text: str, markers: tuple[str, str]) -> None:
    """Put `text` between the markers of a file. Raises BenchmarkError where it has none."""
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    before, begin, rest = whole.partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not begin or not end:
        raise BenchmarkError(f"{path} has no lines {markers[0]!r} and {markers[1]!r}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def _row(figure: Figure) -> tuple[str, ...]:
    peer = figure.target.peer
    beside = (peer, median(figure, peer)) if peer in figure.samples else ("", "")
    return figure.name, *beside, *cells(figure)


def median(figure: Figure, peer: str) -> str:
    """What a peer takes."""
    return amount(statistics.median(figure.samples[peer]), figure.unit)


def cells(figure: Figure) -> tuple[str, ...]:
    """Ours, its ratio to the peer's, the range, and what was to be reached."""
    target, unit = figure.target, figure.unit

    def written(value: float) -> str:
        return _ratio(value, figure.form) if target.is_ratio else amount(value, unit)

    ratio = written(figure.value) if target.is_ratio else ""
    must, aim = ("" if one is None else written(one) for one in (target.must, target.aim))
    return median(figure, target.mode), ratio, " to ".join(map(written, figure.range)), must, aim, figure.reached


def _ratio(value: float, form: str) -> str:
    if form == AS_FRACTION:
        inverse = 1 / value
        return f"1/{inverse:.0f}" if inverse >= 9.95 or inverse == round(inverse) else f"1/{inverse:.1f}"
    return f"{value:.2f}"


def amount(value: float, unit: str) -> str:
    """A number as a person reads it."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
