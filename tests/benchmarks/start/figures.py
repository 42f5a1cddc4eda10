"""The figures, and their table. All ways take turns within a round; a figure is the median of its rounds."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from tests.benchmarks import report
from tests.benchmarks.clusters import namespace_for
from tests.benchmarks.report import Figure, Target

from .jobs import RAISED, SSH, THEIRS, WAYS
from .run import Times, run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.benchmarks.command import Say
    from tests.cluster.kube import Api

    from .operators import Operators

MUST, AIM = 0.6, 0.4
SMALL = 2  # workers of the job that must be quick
RUNS = {SMALL: 9, 16: 3, 64: 2}  # by size
_HEAD = (
    *("workers", "create to", "theirs", "limits raised", "ours by ssh", "by exec"),
    *("ssh to theirs", "in single runs", "ssh to raised", "must", "aim", "reached"),
)
_ENDS: dict[str, Callable[[Times], float]] = {
    "first rank's line": lambda times: times.first_rank_s,
    "Succeeded": lambda times: times.succeeded_s,
}

Samples = dict[int, dict[str, list[Times]]]  # by size and way


def measure(api: Api, operators: Operators, runs: Mapping[int, int], say: Say) -> Samples:
    """Run so many jobs of each size, one after the other; one of each warms up. Raises BenchmarkError, SetupError."""
    samples: Samples = {size: {way: [] for way in WAYS} for size in runs}
    with namespace_for(api) as namespace:
        for way in WAYS:
            with operators.of(way):
                run(namespace, way, SMALL, f"warm-{way}")
        for size, count in runs.items():
            for number in range(count):
                for way in WAYS:
                    with operators.of(way):
                        times = run(namespace, way, size, f"pi-{way}-{size}-{number}")
                    samples[size][way].append(times)
                    words = f"first rank {times.first_rank_s:.2f} s, Succeeded {times.succeeded_s:.2f} s"
                    say(f"{size} workers, run {number + 1} of {count}, {way}: {words}, {times.tries} tries")
    return samples


def rows(samples: Samples) -> list[tuple[str, ...]]:
    """The table's cells, its head first."""
    return [_HEAD, *(_row(size, end, ways) for size, ways in samples.items() for end in _ENDS)]


def tries(samples: Samples) -> str:
    """How often mpi-operator's launchers were started, in a sentence."""
    parts = [
        f"{size} workers {statistics.mean(one.tries for one in ways[THEIRS]):.1f}" for size, ways in samples.items()
    ]
    return f"Starts of mpi-operator's launchers until one succeeded, mean: {', '.join(parts)}."


def _row(size: int, end: str, ways: Mapping[str, Sequence[Times]]) -> tuple[str, ...]:
    seconds = {way: [_ENDS[end](times) for times in taken] for way, taken in ways.items()}
    is_held = size == SMALL and end == "Succeeded"
    must, aim = (MUST, AIM) if is_held else (None, None)
    theirs, raised = (Figure("", "s", seconds, Target(SSH, must, aim, peer=peer)) for peer in (THEIRS, RAISED))
    medians = (report.median(theirs, way) for way in WAYS)
    _, ratio, spread, *held = report.cells(theirs)
    return (str(size), end, *medians, ratio, spread, report.cells(raised)[1], *held)
