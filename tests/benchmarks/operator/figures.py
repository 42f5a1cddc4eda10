"""The figures: many jobs at once on kwok's nodes. The peers take turns within a round."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.report import Figure, Target
from tests.cluster.local.places import Places

from .burst import Burst, burst
from .peers import OURS, THEIRS, peers
from .plane import Plane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.benchmarks.command import Say


class Plan(NamedTuple):
    """How much is measured."""

    few: int = 100
    many: int = 500
    rounds: int = 1


def bursts(plan: Plan, say: Say) -> list[Figure]:
    """Many jobs at once, each time with a control plane of their own. Raises BenchmarkError, SetupError."""
    both = peers("example/mpi-agents:1")
    found: dict[int, dict[str, list[Burst]]] = {
        count: {peer.name: [] for peer in both} for count in (plan.few, plan.many)
    }
    for number in range(plan.rounds):
        for count, samples in found.items():
            for peer in both:
                say(f"round {number + 1} of {plan.rounds}: {count} jobs, {peer.name}")
                with Plane(Places.of()) as plane:
                    samples[peer.name].append(burst(plane, peer, count, say))
    return _figures(plan, found[plan.few], found[plan.many])


def _figures(plan: Plan, few: Mapping[str, Sequence[Burst]], many: Mapping[str, Sequence[Burst]]) -> list[Figure]:
    def figure(name: str, unit: str, value: Callable[[Burst], float], target: Target) -> Figure:
        return Figure(name, unit, {peer: [*map(value, taken)] for peer, taken in many.items()}, target)

    growth = {
        peer: [after.cpu_ms / before.cpu_ms for before, after in zip(few[peer], many[peer], strict=True)]
        for peer in few
    }
    jobs = f"{plan.many} jobs"
    return [
        figure(f"{jobs}: first create to all pods made", "s", lambda one: one.all_made_s, _ratio(1.0, 0.8)),
        figure(f"{jobs}: first create to all Succeeded", "s", lambda one: one.all_succeeded_s, _ratio(0.8, 0.6)),
        figure(f"{jobs}: workers left a minute later", "pods", lambda one: one.workers_left, _amount(0, 0)),
        figure("operator's CPU a job", "ms", lambda one: one.cpu_ms, _ratio(2.5, 1.2)),
        figure(f"operator's peak RSS, {jobs}", "MiB", lambda one: one.peak_mib, _amount(160, 100)),
        figure("operator's RSS, idle", "MiB", lambda one: one.idle_mib, _amount(90, 55)),
        figure("API requests a job", "", lambda one: one.requests, _amount(18, 14)),
        Figure(f"CPU a job at {plan.many} jobs to that at {plan.few}", "", growth, _amount(1.2, 1.2)),
    ]


def _ratio(must: float, aim: float) -> Target:
    return Target(OURS, must, aim, peer=THEIRS)


def _amount(must: float, aim: float) -> Target:
    return Target(OURS, must, aim, is_ratio=False, peer=THEIRS)
