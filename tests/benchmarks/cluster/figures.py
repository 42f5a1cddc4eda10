"""The figures, and how each is taken. The peers take turns within a round; a figure is the median of its rounds."""

from __future__ import annotations

import re
import statistics
import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks import report
from tests.benchmarks.measure import BenchmarkError
from tests.benchmarks.report import AS_DECIMAL, AS_FRACTION, Figure, Target
from tests.cluster import pods as of
from tests.cluster.jobs import Job

from .node import Peak
from .stage import AGENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.cluster.kube import Namespace

    from .stage import Stage

    Say = Callable[[str], None]
    Samples = dict[str, list[float]]

FLOOR = 64  # execs at once
CPU = 64  # workers
FRESH = 16
_FRESH_S, _LOG_S = 300.0, 10.0
_BARE = "bare"
MARKERS = ("<!-- make bench-cluster: begin -->", "<!-- make bench-cluster: end -->")
_HEAD = ("figure", "beside", "takes", "ours", "ratio", "in single runs", "must", "aim", "reached")
_PEERS = {"kubectl": "kubectl", _BARE: "a bare socket client"}


class Plan(NamedTuple):
    """How much is measured."""

    sizes: Sequence[int] = (16, 64, 100)
    runs: int = 5
    memory_runs: int = 3


def launches(stage: Stage, plan: Plan, say: Say) -> list[Figure]:
    """Wall time for each size, and CPU in the launcher pod beyond mpirun's own for one."""
    wall_s: dict[int, Samples] = {size: {peer: [] for peer in AGENTS} for size in plan.sizes}
    cpu_s: dict[int, Samples] = {size: {peer: [] for peer in AGENTS} for size in plan.sizes}
    for number in range(-1, plan.runs):
        for size in plan.sizes:
            for peer in AGENTS:
                say(f"mpirun -n {size}: {f'run {number + 1} of {plan.runs}' if number >= 0 else 'warm-up'}, {peer}")
                before = stage.hub.cpu_s()
                took = stage.mpirun(peer, size)
                hub_s = stage.hub.cpu_s() - before if peer == "hub" else 0.0
                if number >= 0:
                    wall_s[size][peer].append(took["wall_s"])
                    cpu_s[size][peer].append(took["children_cpu_s"] + hub_s)
    found = [
        Figure(f"mpirun -n {size} hostname: wall", "s", wall_s[size], Target("hub", 0.7, 0.6), AS_DECIMAL)
        for size in plan.sizes
    ]
    if CPU in plan.sizes:
        name = f"CPU in the launcher pod beyond mpirun's, N = {CPU}"
        found.append(Figure(name, "s", cpu_s[CPU], Target("hub", 1 / 15, 1 / 30), AS_FRACTION))
    return found


def memory(stage: Stage, plan: Plan, say: Say) -> list[Figure]:
    """The launcher pod's peak memory beyond mpirun's, for the largest size."""
    size = max(plan.sizes)
    peak_mib: Samples = {peer: [] for peer in AGENTS}
    for number in range(plan.memory_runs):
        for peer in AGENTS:
            say(f"memory, N = {size}: run {number + 1} of {plan.memory_runs}, {peer}")
            with Peak(stage.main, stage.hub if peer == "hub" else None) as peak:
                stage.mpirun(peer, size)
            peak_mib[peer].append(peak.mib)
    target = Target("hub", 64, 32, is_ratio=False)
    return [Figure(f"launcher pod's peak memory beyond mpirun's, N = {size}", "MiB", peak_mib, target, AS_DECIMAL)]


def floor(stage: Stage, plan: Plan, say: Say) -> list[Figure]:
    """`true` in many pods at once, beside the least that an exec can be."""
    size = min(FLOOR, max(plan.sizes))
    wall_s: Samples = {peer: [] for peer in (_BARE, "hub")}
    for number in range(-1, plan.runs):
        for peer, samples in wall_s.items():
            say(f"{size} execs at once: {f'run {number + 1} of {plan.runs}' if number >= 0 else 'warm-up'}, {peer}")
            took = stage.burst(peer, size)
            if number >= 0:
                samples.append(took["wall_s"])
    target = Target("hub", 1.15, 1.15, peer=_BARE)
    return [Figure(f"{size} execs of true at once: wall", "s", wall_s, target, AS_DECIMAL)]


def fresh(new_namespace: Callable[[], Namespace], plan: Plan, say: Say) -> list[Figure]:
    """A whole job applied: from the last worker's Ready to the first rank's line."""
    name = f"last worker Ready to first rank, N = {FRESH}"
    seconds: list[float] = []
    for number in range(plan.runs):
        say(f"a fresh job of {FRESH} workers: run {number + 1} of {plan.runs}")
        seconds.append(_fresh(new_namespace()))
    return [Figure(name, "s", {"hub": seconds}, Target("hub", 2.5, 1.8, is_ratio=False), AS_DECIMAL)]


def _fresh(namespace: Namespace) -> float:
    """Seconds from the last worker's Ready to a rank's first line."""
    job = Job("openmpi4", workers=FRESH)
    job.command("mpirun", "-n", str(FRESH), "hostname")
    namespace.apply(job.objects)
    namespace.wait_ready(job.workers, _FRESH_S)
    ready = time.time()
    namespace.wait(job.launcher_name, lambda pod: of.phase(pod) in ("Succeeded", "Failed"), "has ended", _FRESH_S)
    printed = _times(namespace, job.launcher_name, str(job.main["name"]), f"^{job.name}-worker-")
    namespace.delete("Namespace", namespace.name)
    namespace.wait_deleted("Namespace", namespace.name, _FRESH_S)  # or its end would slow the next one's start
    if len(printed) != FRESH:
        raise BenchmarkError(f"a fresh job printed {len(printed)} lines instead of {FRESH}")
    return printed[0] - ready


def _times(namespace: Namespace, pod: str, container: str, text: str) -> list[float]:
    """When a container printed the lines that match."""
    path, query = f"{namespace.path('Pod', pod)}/log", {"container": container, "timestamps": "true"}
    stamped = [line.split(" ", 1) for line in namespace.api.lines(path, query, _LOG_S)]
    return [datetime.fromisoformat(when).timestamp() for when, line in stamped if re.search(text, line)]


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The table's cells, its head first."""
    return [_HEAD, *map(_row, figures)]


def _row(figure: Figure) -> tuple[str, ...]:
    target, peer = figure.target, figure.samples.get(figure.target.peer)
    beside = (_PEERS[target.peer], report.amount(statistics.median(peer), figure.unit)) if peer else ("", "")
    return (figure.name, *beside, *report.cells(figure))
