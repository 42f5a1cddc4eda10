"""`python -m tests.benchmarks.operator`: what the operator costs beside kubeflow's."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.benchmarks import command, report
from tests.benchmarks.clusters import own_version
from tests.cluster.local.build import build
from tests.cluster.local.places import Places
from tests.cluster.operators.programs import KWOK, MPI_OPERATOR_V2

from . import figures

if TYPE_CHECKING:
    from tests.benchmarks.command import Say


def main() -> int:
    """Run the command line."""
    options = _options()
    plan = figures.Plan(few=options.few, many=options.many, rounds=options.rounds)

    def measure(say: Say) -> command.Table:
        MPI_OPERATOR_V2.build(say)
        build(Places.of(), say)
        KWOK.build(say)
        return command.Table(report.rows(figures.bursts(plan, say)))

    return command.run("make bench-operator", own_version, measure, writes=options.write)


def _options() -> argparse.Namespace:
    default = figures.Plan()
    parser = argparse.ArgumentParser(prog="make bench-operator", description="What the operator costs.")
    parser.add_argument("--few", type=int, default=default.few, metavar="N", help="jobs of the smaller burst")
    parser.add_argument("--many", type=int, default=default.many, metavar="N", help="jobs of the larger burst")
    parser.add_argument("--rounds", type=int, default=default.rounds, metavar="N", help="rounds of the bursts")
    return command.parse(parser, lambda asked: (asked.few, asked.many) == (default.few, default.many))


if __name__ == "__main__":
    sys.exit(main())
