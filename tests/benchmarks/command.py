"""The command line that benchmarks on the tests' own cluster have: measure, print the table, put it into the docs.

The exit code tells whether it could be measured (0), not what came out; 1: it couldn't.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks import report
from tests.benchmarks.measure import BenchmarkError, machine, noise
from tests.cluster.kube import WaitError
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.places import Places, SetupError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    Say = Callable[[str], None]


class Table(NamedTuple):
    """What was measured: the cells, the head first, and a sentence that belongs to them."""

    rows: Sequence[tuple[str, ...]]
    remark: str = ""


def parse(parser: argparse.ArgumentParser, is_whole: Callable[[argparse.Namespace], bool]) -> argparse.Namespace:
    """Read the options, to which --write is added; `is_whole`: whether they ask for the table that the docs have."""
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    if options.write and not is_whole(options):
        parser.error("--write takes the whole table, in its full size")
    return options


def run(measure: Callable[[Say], Table], write_between: tuple[str, str] | None) -> int:
    """Measure, print the table, and put it between these markers of the docs, if any; return the exit code."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without ending what was started
    setting = f"Kubernetes {Places.of().version}; {machine()}. {noise()}"
    print(setting, flush=True)
    try:
        table = measure(_progress(began))
    except (BenchmarkError, SetupError, WaitError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    remark = f" {table.remark}" if table.remark else ""
    print(f"\n{report.plain(table.rows)}\n\nMeasured in {time.monotonic() - began:.0f} s.{remark}")
    if write_between:
        text = f"{time.strftime('%Y-%m-%d')}. {setting}{remark}\n\n{report.markdown(table.rows)}"
        report.write(report.DOC, text, write_between)
    return 0


@contextlib.contextmanager
def cluster(say: Say, images: str = "") -> Iterator[str]:
    """The tests' own cluster, up with its images for this time unless it was before: the kubeconfig's path.

    `images`: of those that take long or are large, with commas between. Raises BenchmarkError, SetupError.
    """
    local = LocalCluster(Places.of(), say)
    was_up = local.is_up
    words = [sys.executable, "-m", "tests.cluster", "up"]
    env = os.environ | ({"CLUSTER_IMAGES": images} if images else {})
    try:
        if subprocess.run(words, stdout=sys.stderr, check=False, env=env).returncode:
            raise BenchmarkError("the tests' own cluster does not come up")
        yield str(local.places.kubeconfig)
    finally:
        if not was_up:
            local.down()


def _progress(began: float) -> Say:
    def say(text: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {text}", file=sys.stderr, flush=True)

    return say
