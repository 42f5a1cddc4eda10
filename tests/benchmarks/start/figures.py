"""The figures, and their table. The three ways take turns within a round; a figure is the median of its rounds."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.benchmarks import report
from tests.benchmarks.report import AS_DECIMAL, Figure, Target

from .jobs import EXEC, SSH, THEIRS, WAYS
from .run import Times, namespace_for, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.cluster.kube import Api

MARKERS = ("<!-- make bench-start: begin -->", "<!-- make bench-start: end -->")
MUST, AIM = 0.6, 0.4
SMALL = 2  # workers of the job that must be quick
RUNS = {SMALL: 9, 16: 5, 64: 3}  # by size
_HEAD = ("figure", "ours by", "mpi-operator 0.8.2", "ours", "ratio", "in single runs", "must", "aim", "reached")

Samples = dict[int, dict[str, list[Times]]]  # by size and way


def measure(api: Api, runs: Mapping[int, int], say: Callable[[str], None]) -> Samples:
    """Run so many jobs of each size, one after the other; one of each way warms up. Raises BenchmarkError."""
    samples: Samples = {size: {way: [] for way in WAYS} for size in runs}
    with namespace_for(api) as namespace:
        for way in WAYS:
            run(namespace, way, SMALL, f"warm-{way}")
        for size, count in runs.items():
            for number in range(count):
                for way in WAYS:
                    times = run(namespace, way, size, f"pi-{way}-{size}-{number}")
                    samples[size][way].append(times)
                    tries = f", {times.tries} tries" if times.tries > 1 else ""
                    words = f"first rank {times.first_rank_s:.2f} s, Succeeded {times.succeeded_s:.2f} s{tries}"
                    say(f"{size} workers, run {number + 1} of {count}, {way}: {words}")
    return samples


def rows(samples: Samples) -> list[tuple[str, ...]]:
    """The table's cells, its head first."""
    return [_HEAD, *(_row(figure) for figure in _figures(samples))]


def tries(samples: Samples) -> str:
    """How often mpi-operator's launchers were started, in a sentence."""
    counts = {size: [times.tries for times in ways[THEIRS]] for size, ways in samples.items()}
    parts = [f"{size} workers {statistics.mean(found):.1f}" for size, found in counts.items()]
    return f"Starts of mpi-operator's launchers, mean: {', '.join(parts)}."


def _figures(samples: Samples) -> list[Figure]:
    kinds: tuple[tuple[str, Callable[[Times], float]], ...] = (
        ("create to the first rank's line", lambda times: times.first_rank_s),
        ("create to Succeeded", lambda times: times.succeeded_s),
    )
    found = []
    for size, ways in samples.items():
        for name, of in kinds:
            seconds: dict[str, Sequence[float]] = {way: [*map(of, times)] for way, times in ways.items()}
            for way in (SSH, EXEC):
                is_held = size == SMALL and way == SSH
                target = Target(way, MUST if is_held else None, AIM if is_held else None, peer=THEIRS)
                found.append(Figure(f"{size} workers: {name}", "s", seconds, target, AS_DECIMAL))
    return found


def _row(figure: Figure) -> tuple[str, ...]:
    theirs = report.amount(statistics.median(figure.samples[THEIRS]), figure.unit)
    return (figure.name, figure.target.mode, theirs, *report.cells(figure))
