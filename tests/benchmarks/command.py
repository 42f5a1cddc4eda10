"""The command line that all benchmarks have: measure, print the table, put it into the docs.

The exit code tells whether it could be measured (0), not what came out; 1: it couldn't, 2: wrong usage.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from agents.kube.errors import ApiError
from agents.playground.cluster import ClusterError
from tests.benchmarks import report
from tests.benchmarks.measure import BenchmarkError, machine, noise
from tests.cluster.kube import WaitError
from tests.cluster.local.places import SetupError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    Say = Callable[[str], None]

_FAILURES = (
    *(BenchmarkError, ClusterError, SetupError, WaitError, ApiException, ConfigException, HTTPError),
    *(ApiError, OSError, subprocess.SubprocessError),
)


class Table(NamedTuple):
    """What was measured: the cells, the head first, and a sentence that belongs to them."""

    rows: Sequence[tuple[str, ...]]
    remark: str = ""


def parse(
    parser: argparse.ArgumentParser, is_whole: Callable[[argparse.Namespace], bool], figures: Sequence[str] = ()
) -> argparse.Namespace:
    """Read the options, to which --write is added; `is_whole`: whether they ask for the table that the docs have.

    `figures`: names that can be given for these figures alone.
    """
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    if figures:
        parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(figures)}")
    options = parser.parse_args()
    given = options.figures if figures else ()
    if unknown := set(given) - set(figures):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    if options.write and (given or not is_whole(options)):
        parser.error("--write takes the whole table, in its full size")
    return options


def run(name: str, setting: Callable[[], str], measure: Callable[[Say], Table], *, writes: bool = False) -> int:
    """Measure, print the table, and put it between the markers of `name` in the docs if asked to; the exit code.

    `setting`: what it is measured with.
    """
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without ending what was started
    try:
        about = f"{setting()}; {machine()}. {noise()}"
        print(about, flush=True)
        table = measure(_progress(began))
        remark = f" {table.remark}" if table.remark else ""
        print(f"\n{report.plain(table.rows)}\n\nMeasured in {time.monotonic() - began:.0f} s.{remark}")
        if writes:
            text = f"{time.strftime('%Y-%m-%d')}. {about}{remark}\n\n{report.markdown(table.rows)}"
            report.write(report.DOC, text, (f"<!-- {name}: begin -->", f"<!-- {name}: end -->"))
    except _FAILURES as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _progress(began: float) -> Say:
    def say(text: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {text}", file=sys.stderr, flush=True)

    return say
