"""Metrics in Prometheus' text format (version 0.0.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_NO_LABELS: Mapping[str, str] = {}


class Sample(NamedTuple):
    """One line of a metric; `suffix` is what a histogram's lines have after the metric's name."""

    value: float
    labels: Mapping[str, str] = _NO_LABELS
    suffix: str = ""


def lines(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    """Yield a metric's lines; `kind` is counter, gauge or histogram."""
    yield f"# HELP {name} {meaning}\n"
    yield f"# TYPE {name} {kind}\n"
    for value, labels, suffix in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        number = f"{value:.15g}" if isinstance(value, float) else str(int(value))
        yield f"{name}{suffix}{f'{{{inside}}}' if inside else ''} {number}\n"


def single(name: str, kind: str, meaning: str, value: float) -> Iterator[str]:
    """Yield the lines of a metric without labels."""
    return lines(name, kind, meaning, [Sample(value)])


class Histogram:
    """Counts values by upper bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._counts = dict.fromkeys(bounds, 0)
        self._sum, self._count = 0.0, 0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._sum += value
        self._count += 1
        for bound in self._counts:
            self._counts[bound] += value <= bound

    def samples(self) -> Iterator[Sample]:
        """Yield all lines."""
        for bound, count in self._counts.items():
            yield Sample(count, {"le": f"{bound:g}"}, "_bucket")
        yield Sample(self._count, {"le": "+Inf"}, "_bucket")
        yield Sample(self._sum, suffix="_sum")
        yield Sample(self._count, suffix="_count")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").encode(errors="replace").decode()
