"""`python -m tests.benchmarks.start`: measure, print the table, put it into the docs.

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
from tests.cluster.bed.places import BedError, Places
from tests.cluster.kube import Api
from tests.cluster.operators.operator import TakenError
from tests.cluster.operators.programs import MPI_OPERATOR_V2

from . import figures
from .operators import build_image, operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def main() -> int:
    """Run the command line."""
    options = _options()
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without ending what was started
    say = _progress(began)
    try:
        MPI_OPERATOR_V2.build(say)
        with _cluster(say) as kubeconfig:
            setting = f"Kubernetes {Places.of().version}; {machine()}. {noise()}"
            print(setting, flush=True)
            build_image(say)
            api = Api(kubeconfig)
            with operators(api, kubeconfig) as running:
                samples = figures.measure(api, running, options.runs, say)
    except (BenchmarkError, BedError, TakenError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    rows = figures.rows(samples)
    print(f"\n{report.plain(rows)}\n\n{figures.tries(samples)} Measured in {time.monotonic() - began:.0f} s.")
    if options.write:
        text = f"{time.strftime('%Y-%m-%d')}. {setting} {figures.tries(samples)}\n\n{report.markdown(rows)}"
        report.write(report.DOC, text, figures.MARKERS)
    return 0


def _options() -> argparse.Namespace:
    default = figures.RUNS
    parser = argparse.ArgumentParser(prog="make bench-start", description="How long a job takes to start and to end.")
    written = ",".join(f"{size}x{runs}" for size, runs in default.items())
    parser.add_argument("--runs", type=_runs, default=default, metavar="NxR,…", help=f"R jobs of N workers: {written}")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    if options.write and options.runs.keys() != default.keys():
        parser.error("--write takes the whole table, in its full size")
    return options


def _runs(text: str) -> dict[int, int]:
    pairs = [word.split("x") for word in text.split(",")]
    return {int(size): int(runs) for size, runs in pairs}


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
