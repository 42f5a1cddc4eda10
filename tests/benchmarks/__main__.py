"""`python -m tests.benchmarks`: measure, print the table, and with --write put it into docs/performance.md.

The exit code tells whether it could be measured (0), not what came out; 1: it couldn't, 2: wrong usage.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

from agents.playground.cluster import ClusterError

from . import figures, report
from .measure import BenchmarkError, machine, noise
from .stage import kubectl_program, staged

# The distribution's: how Python is built makes a factor of two in a start's CPU, and the published figures are by this.
_PYTHON = "/usr/bin/python3"


def main() -> int:
    """Run the command line."""
    options = _options()
    began = time.monotonic()
    try:
        setting = _setting(options.python)
        quiet = noise()
        print(f"{setting}\n{quiet}", flush=True)
        measured = _measure(
            options.figures or list(figures.ALL),
            figures.QUICK if options.quick else figures.FULL,
            options.python,
            options.beside,
        )
        table = report.rows(measured)
        if options.quick:
            print("\nA smoke run: smaller than the figures that the targets are for.")
        print(f"\n{report.plain(table)}\n\nmeasured in {time.monotonic() - began:.0f} s")
        if options.write:
            report.write(report.DOC, f"{setting} {quiet}\n\n{report.markdown(table)}", report.MARKERS)
    except (BenchmarkError, ClusterError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="What a launch costs beside kubectl exec.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(figures.ALL)}")
    parser.add_argument("--quick", action="store_true", help="a smoke run: smaller, and not the figures that count")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--python", default=_PYTHON, metavar="PATH", help="run the agents by this Python (%(default)s)")
    parser.add_argument("--beside", metavar="COMMIT", help="measure the client and hub of this commit, too")
    options = parser.parse_args()
    unknown = set(options.figures) - set(figures.ALL)
    if unknown:
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    if options.write and (options.quick or options.figures or options.beside):
        parser.error("--write takes the whole table, in its full size")
    return options


def _measure(names: list[str], size: figures.Size, python: str, beside: str | None) -> list[report.Figure]:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with staged(size.held, python, beside) as stage:
        table = [figure for name in names for figure in figures.ALL[name](stage, size)]
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    # What has a target first, then what is for information.
    return sorted(table, key=lambda figure: figure.target.must is None)


def _setting(python: str) -> str:
    """What it was measured with, in one sentence."""
    answer = subprocess.run([kubectl_program(), "version", "--client", "-o", "json"], check=True, capture_output=True)
    kubectl = json.loads(answer.stdout)["clientVersion"]["gitVersion"].removeprefix("v")
    return f"kubectl {kubectl}; agents run by Python {_version(python)} ({python}); {machine()}."


def _version(python: str) -> str:
    """The version of an interpreter. Raises BenchmarkError if it can't run the agents."""
    about = "import sys; print(*sys.version_info[:3], sep='.', end='')"
    try:
        text = subprocess.run([python, "-I", "-S", "-c", about], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchmarkError(f"{python} can't be run: {error}") from None
    if tuple(map(int, text.split(".")[:2])) < (3, 11):
        raise BenchmarkError(f"{python} is Python {text}; --python names one from 3.11 on")
    return text


if __name__ == "__main__":
    sys.exit(main())
