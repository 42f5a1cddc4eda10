"""`python -m tests.benchmarks.operator`: measure, print the table, put it into the docs.

The exit code tells whether it could be measured (0), not what came out; 1: it couldn't.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.benchmarks import report
from tests.benchmarks.measure import BenchmarkError, machine, noise
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.build import build
from tests.cluster.bed.places import BedError, Places
from tests.cluster.kube import Api
from tests.cluster.operators.programs import KWOK, MPI_OPERATOR_V2

from . import figures, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ALL = ("bursts", "one-job")


def main() -> int:
    """Run the command line."""
    options = _options()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without ending what was started
    setting = f"Kubernetes {Places.of().version}; {machine()}. {noise()}"
    print(setting, flush=True)
    plan = figures.Plan(few=options.few, many=options.many, rounds=options.rounds, runs=options.runs)
    try:
        measured = _measure(options.figures or ALL, plan, _progress(began))
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
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(ALL)}")
    parser.add_argument("--few", type=int, default=default.few, metavar="N", help="jobs of the smaller burst")
    parser.add_argument("--many", type=int, default=default.many, metavar="N", help="jobs of the larger burst")
    parser.add_argument("--rounds", type=int, default=default.rounds, metavar="N", help="rounds of the bursts")
    parser.add_argument("--runs", type=int, default=default.runs, metavar="N", help="runs of the one job")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(ALL):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    if options.write and (options.figures or (options.few, options.many) != (default.few, default.many)):
        parser.error("--write takes the whole table, in its full size")
    return options


def _measure(names: Sequence[str], plan: figures.Plan, say: Callable[[str], None]) -> list[report.Figure]:
    measured: list[report.Figure] = []
    MPI_OPERATOR_V2.build(say)
    if "bursts" in names:
        build(Places.of(), say)
        KWOK.build(say)
        measured += figures.bursts(plan, say)
    if "one-job" in names:
        with _cluster(say) as kubeconfig:
            measured += figures.one_job(Api(kubeconfig), kubeconfig, plan, say)
    return measured


@contextlib.contextmanager
def _cluster(say: Callable[[str], None]) -> Iterator[str]:
    """The tests' own cluster, up with its images for this time unless it was before: the kubeconfig's path."""
    bed = Bed(Places.of(), say)
    was_up = bed.is_up
    try:
        if subprocess.run([sys.executable, "-m", "tests.cluster", "up"], stdout=sys.stderr, check=False).returncode:
            raise BenchmarkError("the tests' own cluster does not come up")
        yield str(bed.places.kubeconfig)
    finally:
        if not was_up:
            bed.down()


def _progress(began: float) -> Callable[[str], None]:
    def say(text: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {text}", file=sys.stderr, flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
