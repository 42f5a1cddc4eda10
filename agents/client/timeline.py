"""What has happened to a job, from created to ended, by what its objects say. Pure.

What only a pod knew is left out once the pod is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    steps = [(facts.created_at, "created"), (_resumed_at(facts), _resumed(facts))]
    if facts.workers:  # else the launcher's pod would be taken for the first
        created = [pod.created_at for pod in facts.workers.values()]
        steps.append((min((at for at in created if at is not None), default=None), "first worker created"))
    ready = f"all {facts.wanted} workers ready" if facts.wanted > 1 else "worker ready"
    steps.append((_workers_ready_at(facts), ready))
    steps += [(at, f"{LAUNCHER} {pod.name} {what}") for pod in facts.launchers for what, at in _launcher_times(pod)]
    steps += _conditions(facts)
    known = [Step(at, printable(what)) for at, what in steps if at is not None]
    return tuple(sorted(known, key=lambda step: step.at))


def _resumed(facts: Facts) -> str:
    return f"admitted by queue {facts.kueue_queue}" if facts.kueue_queue else "resumed"


def _resumed_at(facts: Facts) -> float | None:
    """When the job was suspended for the last time until, as a queue does that admits it."""
    found = conditions.find(facts.conditions, Type.SUSPENDED)
    return _changed(found) if found is not None and found.get("status") == "False" else None


def _workers_ready_at(facts: Facts) -> float | None:
    """By the pods, or by our operator's condition."""
    ready = [
        _condition_at(mappings(part(pod.raw, "status").get("conditions")), "Ready") for pod in facts.workers.values()
    ]
    known = [at for at in ready if at is not None]
    if facts.wanted and len(known) == facts.wanted:
        return max(known)
    return _condition_at(facts.conditions, Type.WORKERS_READY) if facts.wanted else None


def _conditions(facts: Facts) -> Iterator[tuple[float | None, str]]:
    for one in facts.conditions:
        if one.get("status") == "True" and one.get("type") in KUBEFLOW and one.get("type") != Type.CREATED:
            yield _changed(one), str(one.get("type")).lower()


def _condition_at(found: Sequence[Object], kind: str) -> float | None:
    """When a condition became True; None if it is not."""
    one = conditions.true_condition(found, kind)
    return None if one is None else _changed(one)


def _changed(condition: Object) -> float | None:
    return seconds(condition.get("lastTransitionTime"))


def _launcher_times(pod: PodFacts) -> list[tuple[str, float | None]]:
    state = pod.main_state
    now = part(state, "terminated") or part(state, "running")
    found = [("started", seconds(now.get("startedAt")))]
    if "terminated" in state:
        found.append((f"ended with exit code {now.get('exitCode')}", seconds(now.get("finishedAt"))))
    return found
