"""`python -m tests.benchmarks.cluster`: measure on KUBECONFIG's cluster, print the table, put it into the docs.

The exit code tells whether it could be measured (0), not what came out; 1: it couldn't, 2: wrong usage.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from tests.benchmarks import report
from tests.benchmarks.measure import BenchmarkError, machine, noise
from tests.cluster.kube import Api, WaitError

from . import figures
from .stage import Stage, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Figures = list[report.Figure]

ALL = ("launches", "memory", "floor", "fresh")


def main() -> int:
    """Run the command line."""
    options = _options()
    began = time.monotonic()
    if not os.environ.get("KUBECONFIG"):
        print("benchmark: KUBECONFIG names no cluster: run it by `make bench-cluster`", file=sys.stderr)
        return 2
    say = _progress(began)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without deleting the namespaces
    try:
        api = Api(os.environ["KUBECONFIG"])
        setting = f"{_setting(api)} {noise()}"
        print(setting, flush=True)
        measured, version = _measure(api, options.figures or ALL, figures.Plan(options.sizes, options.runs), say)
    except (BenchmarkError, WaitError) as error:
        print(f"\nbenchmark: {error}", file=sys.stderr)
        return 1
    except (ApiException, ConfigException, HTTPError) as error:
        print(f"\nbenchmark: the cluster of {os.environ['KUBECONFIG']} can't be used: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    say("")
    beside = f"Beside kubectl {version}. " if version else ""
    rows = figures.rows(measured)
    print(f"\n{report.plain(rows)}\n\n{beside}Measured in {time.monotonic() - began:.0f} s.")
    if options.write:
        text = f"{time.strftime('%Y-%m-%d')}. {beside}{setting}\n\n{report.markdown(rows)}"
        report.write(report.DOC, text, figures.MARKERS)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-cluster", description="What a launch costs on a cluster.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(ALL)}")
    parser.add_argument("--sizes", type=_sizes, default=figures.Plan().sizes, metavar="N,N…", help="numbers of workers")
    parser.add_argument("--runs", type=int, default=figures.Plan().runs, metavar="N", help="runs of each")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(ALL):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}")
    if options.write and (options.figures or options.sizes != figures.Plan().sizes):
        parser.error("--write takes the whole table, in its full size")
    return options


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in text.split(",")))


def _measure(api: Api, names: Sequence[str], plan: figures.Plan, say: Callable[[str], None]) -> tuple[Figures, str]:
    """The figures, and the version of the kubectl they are measured beside, if any is."""
    measured: Figures = []
    version = ""
    with namespaces(api) as new:
        if "fresh" in names:  # first: a hundred idle pods keep a kubelet busy
            measured += figures.fresh(new, plan, say)
        on_stage = [name for name in names if name != "fresh"]
        if on_stage:
            say(f"starting {max(plan.sizes)} workers")
            stage = Stage(new(), plan.sizes)
            stage.start()
            version = stage.kubectl_version()
            for name in on_stage:
                measured += getattr(figures, name)(stage, plan, say)
    return measured, version


def _setting(api: Api) -> str:
    version = str(api.call("get", "/version")["gitVersion"]).removeprefix("v")
    return f"Kubernetes {version}; {machine()}."


def _progress(began: float) -> Callable[[str], None]:
    def say(text: str) -> None:
        at = f"{time.monotonic() - began:4.0f} s  " if text else ""
        sys.stderr.write(f"\r\x1b[K{at}{text}" if sys.stderr.isatty() else f"{at}{text}\n" if text else "")
        sys.stderr.flush()

    return say


if __name__ == "__main__":
    sys.exit(main())
