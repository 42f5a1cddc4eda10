"""`python -m tests.benchmarks.operator`: measure, print the table, put it into the docs.

The exit code tells whether it could be measured (0), not what came out; 1: it couldn't.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from typing import TYPE_CHECKING

from tests.benchmarks import report
from tests.benchmarks.measure import BenchmarkError, machine, noise
from tests.cluster.bed.build import build
from tests.cluster.bed.places import BedError, Places
from tests.cluster.operators.programs import KWOK, MPI_OPERATOR_V2

from . import figures, table

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> int:
    """Run the command line."""
    options = _options()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without ending what was started
    setting = f"Kubernetes {Places.of().version}; {machine()}. {noise()}"
    print(setting, flush=True)
    plan = figures.Plan(few=options.few, many=options.many, rounds=options.rounds)
    try:
        measured = _measure(plan, _progress(began))
    except (BenchmarkError, BedError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    rows = table.rows(measured)
    print(f"\n{report.plain(rows)}\n\nMeasured in {time.monotonic() - began:.0f} s.")
    if options.write:
        text = f"{time.strftime('%Y-%m-%d')}. {setting}\n\n{report.markdown(rows)}"
        report.write(report.DOC, text, table.MARKERS)
    return 0


def _options() -> argparse.Namespace:
    default = figures.Plan()
    parser = argparse.ArgumentParser(prog="make bench-operator", description="What the operator costs.")
    parser.add_argument("--few", type=int, default=default.few, metavar="N", help="jobs of the smaller burst")
    parser.add_argument("--many", type=int, default=default.many, metavar="N", help="jobs of the larger burst")
    parser.add_argument("--rounds", type=int, default=default.rounds, metavar="N", help="rounds of the bursts")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    if options.write and (options.few, options.many) != (default.few, default.many):
        parser.error("--write takes the whole table, in its full size")
    return options


def _measure(plan: figures.Plan, say: Callable[[str], None]) -> list[report.Figure]:
    MPI_OPERATOR_V2.build(say)
    build(Places.of(), say)
    KWOK.build(say)
    return figures.bursts(plan, say)


def _progress(began: float) -> Callable[[str], None]:
    def say(text: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {text}", file=sys.stderr, flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
