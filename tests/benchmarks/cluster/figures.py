"""The figures, and how each is taken. The peers take turns within a round; a figure is the median of its rounds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.clusters import namespace_for, printed
from tests.benchmarks.measure import BenchmarkError
from tests.benchmarks.report import AS_FRACTION, Figure, Target
from tests.cluster import pods as of
from tests.cluster.jobs import Job

from .node import Peak
from .stage import AGENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.command import Say
    from tests.cluster.kube import Api, Namespace

    from .stage import Stage

    Samples = dict[str, list[float]]

FLOOR = 64  # execs at once
CPU = 64  # workers
FRESH = 16
_FRESH_S = 300.0
_BARE = "a bare socket client"


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
        Figure(f"mpirun -n {size} hostname: wall", "s", wall_s[size], Target("hub", 0.7, 0.6)) for size in plan.sizes
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
    return [Figure(f"launcher pod's peak memory beyond mpirun's, N = {size}", "MiB", peak_mib, target)]


def floor(stage: Stage, plan: Plan, say: Say) -> list[Figure]:
    """`true` in many pods at once, beside the least that an exec can be."""
    size = min(FLOOR, max(plan.sizes))
    wall_s: Samples = {peer: [] for peer in (_BARE, "hub")}
    for number in range(-1, plan.runs):
        for peer, samples in wall_s.items():
            say(f"{size} execs at once: {f'run {number + 1} of {plan.runs}' if number >= 0 else 'warm-up'}, {peer}")
            took = stage.burst("bare" if peer == _BARE else peer, size)
            if number >= 0:
                samples.append(took["wall_s"])
    target = Target("hub", 1.15, 1.15, peer=_BARE)
    return [Figure(f"{size} execs of true at once: wall", "s", wall_s, target)]


def fresh(api: Api, plan: Plan, say: Say) -> list[Figure]:
    """A whole job applied: from the last worker's Ready to the first rank's line."""
    name = f"last worker Ready to first rank, N = {FRESH}"
    seconds: list[float] = []
    for number in range(plan.runs):
        say(f"a fresh job of {FRESH} workers: run {number + 1} of {plan.runs}")
        with namespace_for(api, "restricted") as namespace:
            seconds.append(_fresh(namespace))
        namespace.wait_deleted("Namespace", namespace.name, _FRESH_S)  # or its end would slow the next one's start
    return [Figure(name, "s", {"hub": seconds}, Target("hub", 2.5, 1.8, is_ratio=False))]


def _fresh(namespace: Namespace) -> float:
    """Seconds from the last worker's Ready to a rank's first line."""
    job = Job("openmpi4", workers=FRESH)
    job.command("mpirun", "-n", str(FRESH), "hostname")
    namespace.apply(job.objects)
    namespace.wait_ready(job.workers, _FRESH_S)
    ready = time.time()
    namespace.wait(job.launcher_name, lambda pod: of.phase(pod) in ("Succeeded", "Failed"), "has ended", _FRESH_S)
    lines = printed(namespace, job.launcher_name, str(job.main["name"]), f"^{job.name}-worker-")
    if len(lines) != FRESH:
        raise BenchmarkError(f"a fresh job printed {len(lines)} lines instead of {FRESH}")
    return lines[0][0] - ready
