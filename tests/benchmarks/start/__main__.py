"""`python -m tests.benchmarks.start`: how long a job takes to start and to end, beside kubeflow's operator."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.benchmarks import command
from tests.benchmarks.clusters import cluster, own_version
from tests.cluster.kube import Api
from tests.cluster.operators.programs import MPI_OPERATOR_V2

from . import figures
from .operators import build_image, operators

if TYPE_CHECKING:
    from tests.benchmarks.command import Say


def main() -> int:
    """Run the command line."""
    options = _options()

    def measure(say: Say) -> command.Table:
        MPI_OPERATOR_V2.build(say)
        with cluster(say) as kubeconfig:
            build_image(say)
            api = Api(kubeconfig)
            with operators(api, kubeconfig) as running:
                samples = figures.measure(api, running, options.runs, say)
        return command.Table(figures.rows(samples), figures.tries(samples))

    return command.run("make bench-start", own_version, measure, writes=options.write)


def _options() -> argparse.Namespace:
    default = figures.RUNS
    parser = argparse.ArgumentParser(prog="make bench-start", description="How long a job takes to start and to end.")
    written = ",".join(f"{size}x{runs}" for size, runs in default.items())
    parser.add_argument("--runs", type=_runs, default=default, metavar="NxR,…", help=f"R jobs of N workers: {written}")
    return command.parse(parser, lambda asked: asked.runs.keys() == default.keys())


def _runs(text: str) -> dict[int, int]:
    pairs = [word.split("x") for word in text.split(",")]
    return {int(size): int(runs) for size, runs in pairs}


if __name__ == "__main__":
    sys.exit(main())
