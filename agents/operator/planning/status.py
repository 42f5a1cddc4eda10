"""When the status is written, the steps of a plan, and the pods in a T9k job's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import Object, mappings, part
from agents.job.model import LAUNCHER, WORKER, Dialect, Job
from agents.job.status import StatusBuilder, Urgency, raw_conditions, seconds
from agents.job.t9k_status import Phase, Replica, Task, replicas_of
from agents.kube.kinds import BATCH_JOB, POD
from agents.operator.actions import Action, Create, Plan, WriteStatus
from agents.operator.planning import virtual_cluster
from agents.operator.planning.pods import PodView
from agents.operator.planning.view import View
from agents.operator.planning.workers import score
from agents.operator.settings import FIELD_MANAGER

# How long after the last write the next one comes, if nothing in it is urgent: a start makes many small steps.
_WAITS_S = {Urgency.NONE: 0.0, Urgency.LOW: 20.0, Urgency.PROBLEM: 5.0, Urgency.AT_ONCE: 0.0}
# How old a job is when its status is first written. A client that creates a job and then updates what it got must meet
# no other version for at least 1 s; creationTimestamp has whole seconds, and may be by another clock than ours.
_FIRST_S, _FIRST_SEEN_S = 2.25, 1.25
# What does not wait for that: clients wait for it, or the status alone remembers it.
_AT_ONCE = (Type.RUNNING, Type.SUCCEEDED, Type.FAILED, Type.RESTARTING, Type.DEBUGGING)


def is_written(resource: Object) -> bool:
    """Whether we have written this job's status."""
    managers = mappings(part(resource, "metadata").get("managedFields"))
    return any((one.get("manager"), one.get("subresource")) == (FIELD_MANAGER, "status") for one in managers)


def first_write_at(
    job: Job | None, resource: Object, builder: StatusBuilder, now: float, seen_at: float = 0.0
) -> float | None:
    """Return when a job's status is first to be written; None if that is now, or it was written before.

    `seen_at`: since when the job is known here.
    """
    current = builder.status["conditions"]
    if raw_conditions(resource) or is_written(resource) or any(conditions.is_true(current, one) for one in _AT_ONCE):
        return None
    if job is not None and job.resume and conditions.is_true(current, Type.SUSPENDED):
        return None  # what it runs when it is resumed depends on that
    created_at = seconds(part(resource, "metadata").get("creationTimestamp")) or 0.0
    times = (created_at + _FIRST_S, seen_at + _FIRST_SEEN_S)
    # A clock that is far off delays nothing.
    return max((at for at in times if now < at <= now + 2 * _FIRST_S), default=None)


class Steps:
    """The steps of one plan, behind the write of its status.

    A plan that makes pods writes the status even if it stays the same: a plan made from an old state of the job is
    rejected there, before it creates a pod that is no longer wanted. Before the first write is due that is a dry run,
    which the API server also rejects if the job has changed.
    """

    def __init__(self, view: View, builder: StatusBuilder) -> None:
        self._view, self._builder = view, builder
        self._steps: list[Sequence[Action]] = []
        self._requeue_times: list[float] = []
        self._is_checked = False
        written_at = view.time("lastReconcileTime") or 0.0
        first_at = first_write_at(view.job, view.observed.resource, builder, view.now, view.observed.seen_at)
        self._is_held = first_at is not None
        due_at = written_at + _WAITS_S[builder.urgency] if first_at is None else first_at
        # The last leader's clock may have been ahead of ours: what is urgent waits for no clock.
        is_due = first_at is None and (
            builder.urgency is Urgency.AT_ONCE or due_at <= view.now or written_at > view.now
        )
        self.is_written = builder.urgency is not Urgency.NONE and is_due
        if builder.urgency is not Urgency.NONE and not is_due:
            self._requeue_times.append(due_at)

    def add(self, step: Sequence[Action]) -> None:
        """Add a step, if there is anything in it."""
        if step:
            self._steps.append(step)
            makes_pods = any(isinstance(one, Create) and one.kind in (POD, BATCH_JOB) for one in step)
            self.is_written |= makes_pods and not self._is_held
            self._is_checked |= makes_pods

    def write(self) -> None:
        """Write the status even if unchanged: what is deleted depends on what was read."""
        self.is_written = True

    def requeue_at(self, at: float | None) -> None:
        """Plan again at this time, if it is in the future."""
        if at is not None and at > self._view.now:
            self._requeue_times.append(at)

    def plan(self) -> Plan:
        """Return the plan."""
        steps = [tuple(step) for step in self._steps]
        metadata = part(self._view.observed.resource, "metadata")
        version = str(metadata.get("resourceVersion", ""))
        if self.is_written:
            write = WriteStatus(self._builder.build(), version, "the status has changed")
            first, *others = steps or [()]
            steps = [one for one in ((write,), (*self._builder.events, *first), *others) if one]
        elif self._is_checked:
            write = WriteStatus({}, version, "no pods are created from a stale plan")
            steps = [(write,), *steps]
        return Plan(tuple(steps), min(self._requeue_times, default=None))


_POD_PHASES = frozenset(Phase)


def set_tasks(view: View, builder: StatusBuilder, failed: int = 0) -> None:
    """Set the fields that one dialect has for its pods: a virtual cluster's, and the `tasks` of a T9k job.

    `failed`: launcher pods that were replaced.
    """
    if view.job.dialect is Dialect.VIRTUAL:
        virtual_cluster.set_login(view, builder)
    if view.job.dialect is not Dialect.T9K:
        return
    launcher = view.launchers[-1] if view.launchers else None
    workers = {view.job.worker_name(index): view.workers.get(index) for index in view.hosts}
    there = [pod for pod in workers.values() if pod is not None]
    restarts = sum(pod.restarts(view.worker_containers) + score(pod) for pod in there)
    failed += 0 if launcher is None else launcher.restarts(view.launcher_containers)
    builder.tasks(
        [
            Task(LAUNCHER, failed, _replicas(view, LAUNCHER, {view.job.launcher_name: launcher})),
            Task(WORKER, restarts, _replicas(view, WORKER, workers)),
        ]
    )


def _replicas(view: View, role: str, pods: Mapping[str, PodView | None]) -> tuple[Replica, ...]:
    before = replicas_of(view.status, role)
    gone = {name: replace(one, phase=Phase.DELETED) for name, one in before.items()}
    return tuple(
        gone.get(name, Replica(name, Phase.CREATING)) if pod is None else _replica(view, role, pod)
        for name, pod in pods.items()
    )


def _replica(view: View, role: str, pod: PodView) -> Replica:
    phase = Phase(pod.phase) if pod.phase in _POD_PHASES else Phase.CREATING
    end = view.launcher_end(pod) if role == LAUNCHER else view.worker_end(pod)
    if phase is Phase.RUNNING and end is not None:
        phase = Phase.SUCCEEDED if end.is_success else Phase.FAILED  # its sidecars take a while to end
    if phase is Phase.PENDING and not pod.state.node:
        phase = Phase.CREATING
    return Replica(pod.name, phase, pod.uid, _ended(pod))


def _ended(pod: PodView) -> tuple[tuple[str, int], ...]:
    """Return the exit codes of its containers, and of an init container that kept them from being started."""
    ended = [one for one in pod.state.containers if one.state == "terminated" and one.exit_code is not None]
    shown = [one for one in ended if not one.init or (one.exit_code and not one.sidecar)]
    return tuple((one.name, one.exit_code or 0) for one in shown)
