"""`python -m tests.benchmarks.virtual`: what the separated model and a DVM cost in a virtual cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.benchmarks import command
from tests.benchmarks.clusters import cluster, own_version
from tests.cluster.kube import Api
from tests.cluster.virtual.registry import registry

from . import figures
from .programs import APPLICATIONS
from .stage import operator

if TYPE_CHECKING:
    from tests.benchmarks.command import Say

_IMAGES = "npb,npb-runtime,gromacs,gromacs-runtime,runtime-podman"
_ALL = (*APPLICATIONS, "jobs", "dvm")


def main() -> int:
    """Run the command line."""
    options = _options()

    def measure(say: Say) -> command.Table:
        with cluster(say, _IMAGES) as kubeconfig:
            api = Api(kubeconfig)
            with (
                registry(*{one.image for one in APPLICATIONS.values() if not one.needs or one.needs.exists()}),
                operator(api, kubeconfig),
            ):
                bench = figures.Bench(api, options.runs, say)
                found = [
                    figure
                    for name in options.figures or _ALL
                    for figure in (
                        bench.compare(APPLICATIONS[name]) if name in APPLICATIONS else getattr(bench, name)()
                    )
                ]
        left_out = f"Left out: {'; '.join(bench.left_out)}." if bench.left_out else ""
        return command.Table(figures.rows(found), left_out)

    return command.run("make bench-virtual-cluster", own_version, measure, writes=options.write)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-virtual-cluster", description="What the separated model and a DVM cost in a virtual cluster."
    )
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each figure")
    return command.parse(parser, lambda asked: not asked.runs, _ALL)


if __name__ == "__main__":
    sys.exit(main())
