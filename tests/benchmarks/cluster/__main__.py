"""`python -m tests.benchmarks.cluster`: what a launch costs on KUBECONFIG's cluster, beside kubectl and kubexec.sh."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from tests.benchmarks import command, report
from tests.benchmarks.clusters import namespace_for
from tests.benchmarks.measure import BenchmarkError
from tests.cluster.kube import Api

from . import figures
from .stage import Stage

if TYPE_CHECKING:
    from tests.benchmarks.command import Say

ALL = ("launches", "memory", "floor", "fresh")


def main() -> int:
    """Run the command line."""
    options = _options()
    plan, names = figures.Plan(options.sizes, options.runs), options.figures or ALL

    def measure(say: Say) -> command.Table:
        api, remark = _api(), ""
        measured: list[report.Figure] = []
        if "fresh" in names:  # first: a hundred idle pods keep a kubelet busy
            measured += figures.fresh(api, plan, say)
        on_stage = [name for name in names if name != "fresh"]
        if on_stage:
            with namespace_for(api, "restricted") as namespace:
                say(f"starting {max(plan.sizes)} workers")
                stage = Stage(namespace, plan.sizes)
                stage.start()
                remark = f"Beside kubectl {stage.kubectl_version()}."
                for name in on_stage:
                    measured += getattr(figures, name)(stage, plan, say)
        return command.Table(report.rows(measured), remark)

    return command.run("make bench-cluster", _setting, measure, writes=options.write)


def _options() -> argparse.Namespace:
    default = figures.Plan()
    parser = argparse.ArgumentParser(prog="make bench-cluster", description="What a launch costs on a cluster.")
    parser.add_argument("--sizes", type=_sizes, default=default.sizes, metavar="N,N…", help="numbers of workers")
    parser.add_argument("--runs", type=int, default=default.runs, metavar="N", help="runs of each")
    return command.parse(parser, lambda asked: bool(asked.sizes == default.sizes), ALL)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in text.split(",")))


def _api() -> Api:
    if not os.environ.get("KUBECONFIG"):
        raise BenchmarkError("KUBECONFIG names no cluster: run it by `make bench-cluster`")
    return Api(os.environ["KUBECONFIG"])


def _setting() -> str:
    return f"Kubernetes {str(_api().call('get', '/version')['gitVersion']).removeprefix('v')}"


if __name__ == "__main__":
    sys.exit(main())
