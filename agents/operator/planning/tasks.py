"""The pods of a T9k job as its status lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.model import LAUNCHER, WORKER, Dialect
from agents.job.t9k_status import Phase, Replica, Task, replicas_of
from agents.operator.planning.values import mapping, mappings
from agents.operator.planning.workers import score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.status import Draft
    from agents.operator.planning.pods import End, PodView
    from agents.operator.planning.view import View

_PHASES = frozenset(Phase)


def tell(view: View, draft: Draft, failed: int = 0) -> None:
    """State them, if the job's dialect has a word for them. `failed`: launcher pods that others have replaced."""
    if view.job.dialect is not Dialect.T9K:
        return
    launcher = view.launchers[-1] if view.launchers else None
    workers = {view.job.worker_name(index): view.workers.get(index) for index in view.hosts}
    there = [pod for pod in workers.values() if pod is not None]
    restarts = sum(pod.restarts(view.worker_containers) + score(pod) for pod in there)
    failed += 0 if launcher is None else launcher.restarts(view.launcher_containers)
    draft.tasks(
        [
            Task(LAUNCHER, failed, _replicas(view, LAUNCHER, {view.job.launcher_name: launcher})),
            Task(WORKER, restarts, _replicas(view, WORKER, workers)),
        ]
    )


def _replicas(view: View, role: str, pods: Mapping[str, PodView | None]) -> tuple[Replica, ...]:
    before = replicas_of(view.status, role)
    return tuple(_gone(name, before) if pod is None else _replica(view, role, pod) for name, pod in pods.items())


def _gone(name: str, before: Mapping[str, Replica]) -> Replica:
    """Return a pod that is not there: it was deleted, or was not made yet."""
    known = before.get(name)
    return Replica(name, Phase.CREATING) if known is None else Replica(name, Phase.DELETED, known.uid, known.containers)


def _replica(view: View, role: str, pod: PodView) -> Replica:
    phase = Phase(pod.phase) if pod.phase in _PHASES else Phase.CREATING
    if phase is Phase.RUNNING and (end := _end(view, role, pod)) is not None:
        phase = Phase.SUCCEEDED if end.is_success else Phase.FAILED  # its sidecars are told to end, and take a while
    if phase is Phase.PENDING and not pod.state.node:
        phase = Phase.CREATING
    return Replica(pod.name, phase, pod.uid, _ended(pod))


def _end(view: View, role: str, pod: PodView) -> End | None:
    if role == LAUNCHER:
        return pod.end(view.launcher_containers, view.job.launcher.restart_policy)
    return pod.end(view.worker_containers, view.job.worker.restart_policy)


def _ended(pod: PodView) -> tuple[tuple[str, int], ...]:
    """Return the exit codes of its containers, and of an init container that kept them from being started."""
    init = mappings(mapping(pod.raw.get("spec")).get("initContainers"))
    sidecars = {one.get("name") for one in init if one.get("restartPolicy") == "Always"}
    ended = [one for one in pod.state.containers if one.state == "terminated" and one.exit_code is not None]
    return tuple(
        (one.name, one.exit_code or 0) for one in ended if not one.init or (one.exit_code and one.name not in sidecars)
    )
