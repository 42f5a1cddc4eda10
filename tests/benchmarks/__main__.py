"""`python -m tests.benchmarks`: what a launch costs beside kubectl exec, with local processes for pods."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.benchmarks import command, figures, report
from tests.benchmarks.measure import BenchmarkError
from tests.benchmarks.stage import kubectl_program, staged

if TYPE_CHECKING:
    from tests.benchmarks.command import Say

# The distribution's: how Python is built makes a factor of two in a start's CPU, and the published figures are by this.
_PYTHON = "/usr/bin/python3"


def main() -> int:
    """Run the command line."""
    options = _options()
    size = figures.QUICK if options.quick else figures.FULL

    def measure(say: Say) -> command.Table:
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        with staged(size.held, options.python, say, options.beside) as stage:
            names = options.figures or list(figures.ALL)
            found = [figure for name in names for figure in figures.ALL[name](stage, size)]
        # What has a target first, then what is for information.
        found.sort(key=lambda figure: figure.target.must is None)
        remark = "A smoke run: smaller than the figures that the targets are for." if options.quick else ""
        return command.Table(report.rows(found), remark)

    return command.run("make bench", lambda: _setting(options.python), measure, writes=options.write)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="What a launch costs beside kubectl exec.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: smaller, and not the figures that count")
    parser.add_argument("--python", default=_PYTHON, metavar="PATH", help="run the agents by this Python (%(default)s)")
    parser.add_argument("--beside", metavar="COMMIT", help="measure the client and hub of this commit, too")
    return command.parse(parser, lambda asked: not (asked.quick or asked.beside), list(figures.ALL))


def _setting(python: str) -> str:
    """What it is measured with. Raises BenchmarkError."""
    answer = subprocess.run([kubectl_program(), "version", "--client", "-o", "json"], check=True, capture_output=True)
    kubectl = json.loads(answer.stdout)["clientVersion"]["gitVersion"].removeprefix("v")
    return f"kubectl {kubectl}; agents run by Python {_version(python)} ({python})"


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
