"""What has happened to a job, from created to ended, by what its objects say. Pure.

What only a pod knew is left out once the pod is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.client.facts import Facts, PodFacts
from agents.client.model import Step
from agents.common.text import printable
from agents.job import conditions
from agents.job.conditions import KUBEFLOW, Type
from agents.job.json_object import Object, mappings, part
from agents.job.model import LAUNCHER
from agents.job.status import seconds


def timeline(facts: Facts) -> tuple[Step, ...]:
    """Return a job's steps, oldest first; those of one second in the order in which they happen."""
    steps = [(facts.created_at, "created")]
    suspended = conditions.find(facts.conditions, Type.SUSPENDED)  # until it was resumed, as by a queue that admits it
    if suspended is not None and suspended.get("status") == "False":
        resumed = f"admitted by queue {facts.kueue_queue}" if facts.kueue_queue else "resumed"
        steps.append((_changed(suspended), resumed))
    if facts.workers:  # else the launcher's pod would be taken for the first
        created = [pod.created_at for pod in facts.workers.values()]
        steps.append((min((at for at in created if at is not None), default=None), "first worker created"))
    ready = f"all {facts.wanted} workers ready" if facts.wanted > 1 else "worker ready"
    steps.append((_workers_ready_at(facts), ready))
    steps += [(at, f"{LAUNCHER} {pod.name} {what}") for pod in facts.launchers for what, at in _launcher_times(pod)]
    steps += [
        (_changed(one), str(one.get("type")).lower())
        for one in facts.conditions
        if one.get("status") == "True" and one.get("type") in KUBEFLOW and one.get("type") != Type.CREATED
    ]
    known = [Step(at, printable(what)) for at, what in steps if at is not None]
    return tuple(sorted(known, key=lambda step: step.at))


def _workers_ready_at(facts: Facts) -> float | None:
    """By the pods, or by our operator's condition."""
    ready = [
        _condition_at(mappings(part(pod.raw, "status").get("conditions")), "Ready") for pod in facts.workers.values()
    ]
    known = [at for at in ready if at is not None]
    if facts.wanted and len(known) == facts.wanted:
        return max(known)
    return _condition_at(facts.conditions, Type.WORKERS_READY) if facts.wanted else None


def _condition_at(found: Sequence[Object], kind: str) -> float | None:
    """When a condition became True; None if it is not."""
    one = conditions.true_condition(found, kind)
    return None if one is None else _changed(one)


def _changed(condition: Object) -> float | None:
    return seconds(condition.get("lastTransitionTime"))


def _launcher_times(pod: PodFacts) -> list[tuple[str, float | None]]:
    main = pod.main
    if main is None:
        return []
    found = [("started", seconds(main.started_at))]
    if main.state == "terminated":
        found.append((f"ended with exit code {main.exit_code}", seconds(main.finished_at)))
    return found
