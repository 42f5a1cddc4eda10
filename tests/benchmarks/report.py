"""Figures as a table: plain text for a terminal, Markdown for docs/performance.md. Pure, but for writing the file."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from .measure import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AS_FRACTION, AS_DECIMAL = "fraction", "decimal"  # how a ratio is written: 1/31 or 0.24

BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
_MODES = {"hub": "hub", "direct": "direct mode"}
_HEAD = ("figure", "mode", "kubectl", "ours", "ratio", "in single rounds", "must", "aim", "reached")


class Target(NamedTuple):
    """Which mode is measured against what; without must and aim it is for information."""

    mode: str
    must: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    is_ratio: bool = True  # to kubectl; else an amount


class Figure(NamedTuple):
    """One line of the table: the samples of all rounds, by peer."""

    name: str
    unit: str
    samples: Mapping[str, Sequence[float]]
    target: Target
    form: str

    @property
    def value(self) -> float:
        """What is compared with the target: the ratio of the medians, or the median itself."""
        ours = statistics.median(self.samples[self.target.mode])
        return ours / statistics.median(self.samples["kubectl"]) if self.target.is_ratio else ours

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value of a single round."""
        ours = self.samples[self.target.mode]
        if not self.target.is_ratio:
            return min(ours), max(ours)
        ratios = [own / peer for own, peer in zip(ours, self.samples["kubectl"], strict=True)]
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


def plain(figures: Sequence[Figure]) -> str:
    """The table in aligned columns."""
    table = rows(figures)
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    table.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def markdown(figures: Sequence[Figure]) -> str:
    """The table in Markdown."""
    table = [*rows(figures)]
    table.insert(1, tuple("---" for _ in _HEAD))
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def write(path: str, text: str) -> None:
    """Put `text` between the markers of a file. Raises BenchmarkError where it has none."""
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchmarkError(f"{path} has no lines {BEGIN!r} and {END!r}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def _row(figure: Figure) -> tuple[str, ...]:
    target, unit = figure.target, figure.unit
    peer = _amount(statistics.median(figure.samples["kubectl"]), unit) if target.is_ratio else ""
    ours = _amount(statistics.median(figure.samples[target.mode]), unit)
    low, high = figure.range
    if target.is_ratio:
        value, spread = _ratio(figure.value, figure.form), f"{_ratio(low, figure.form)} to {_ratio(high, figure.form)}"
        must, aim = (("" if one is None else _ratio(one, figure.form)) for one in (target.must, target.aim))
    else:
        value, spread = "", f"{_amount(low, unit)} to {_amount(high, unit)}"
        must, aim = (("" if one is None else _amount(one, unit)) for one in (target.must, target.aim))
    return figure.name, _MODES[target.mode], peer, ours, value, spread, must, aim, figure.reached


def _ratio(value: float, form: str) -> str:
    if form == AS_FRACTION:
        inverse = 1 / value
        return f"1/{inverse:.0f}" if inverse >= 9.95 or inverse == round(inverse) else f"1/{inverse:.1f}"
    return f"{value:.2f}"


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"
