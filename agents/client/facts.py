"""A job and its pods as the client looks at them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from agents.client.starting import held_back, without_sshd
from agents.common import pods
from agents.common.not_ready import STARTING, NotReady, not_ready
from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import Object, part
from agents.job.model import KUEUE_QUEUE, LAUNCHER, WORKER, Implementation, Job, Problem
from agents.job.read import is_managed_elsewhere, read
from agents.job.status import conditions_of, seconds

_INDEX = re.compile(rf"-(?:{WORKER}|node)-(\d+)")  # a virtual cluster's workers are its nodes


@dataclass(frozen=True, slots=True)
class End:
    """How a container ended, with an exit code other than 0 or by the kubelet. Times are epoch seconds.

    `is_current`: it has not been started again since, so that its log is the present one.
    """

    pod: str
    container: str
    exit_code: int | None  # None: the pod failed as a whole, as by eviction
    reason: str  # the kubelet's: OOMKilled, Error, Evicted, …
    message: str
    started_at: float | None
    at: float | None
    is_current: bool = True


@dataclass(frozen=True, slots=True)
class Pending:
    """Where a job is in Kueue's queue: 1 is the next one, None: not known. `reason`: why it is not admitted, or ""."""

    position: int | None = None
    reason: str = ""


class PodFacts:
    """One pod: `raw` as the API server has it, `state` as the agents read it."""

    def __init__(self, raw: Object, job_name: str) -> None:
        self.raw, self.state = raw, pods.parse(dict(raw))
        self.name, self.uid = self.state.name, self.state.uid
        found = _INDEX.fullmatch(self.name.removeprefix(job_name))
        self.index = int(found[1]) if found else None
        """A worker's index; None for a launcher."""
        self.role = LAUNCHER if found is None else WORKER
        self.why: NotReady | None = without_sshd(not_ready(self.state), self.state)
        """Why it is not ready; None if it is."""

    @property
    def main(self) -> pods.ContainerState | None:
        """The user's container."""
        return self.state.container(None)

    @property
    def created_at(self) -> float | None:
        """When the pod was created."""
        return seconds(part(self.raw, "metadata").get("creationTimestamp"))

    @property
    def restarts(self) -> int:
        """How often the kubelet has started containers other than sidecars again."""
        return sum(one.restarts for one in self.state.containers if not one.sidecar)

    @property
    def reason(self) -> str:
        """One word for why it is not ready, the kubelet's or the scheduler's where they have one; "" if it is."""
        if self.why is None:
            return ""
        if self.why.kind == "over":
            last = self.ends[-1] if self.ends else None
            if self.state.reason or last is None:
                return self.state.reason or "Ended"
            return last.reason if last.reason != "Error" else f"ExitCode{last.exit_code}"
        for one in self.state.containers:
            if one.state == "waiting" and one.reason not in STARTING:
                return one.reason
        if self.why.kind == "crash" and self.restarts:  # between its end and the kubelet's word for it
            return "CrashLoopBackOff"
        return _REASONS.get(self.why.kind, "NotReady")

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """Its failed containers in the order of their ends, each one's last end and the one before a restart."""
        found = []
        own = [one for one in self.state.containers if not one.sidecar]  # the kubelet stops sidecars after the others
        if self.state.phase == "Failed" and self.state.reason:
            times = [at for one in own if not one.init and (at := seconds(one.finished_at)) is not None]
            at = max(times, default=None)
            found.append(End(self.name, "", None, self.state.reason, self.state.message, None, at))
        for one in own:
            if one.last_exit_code:
                why = (one.last_exit_code, one.last_reason or "Error", one.last_message)
                lasted = (seconds(one.last_started_at), seconds(one.last_finished_at))
                found.append(End(self.name, one.name, *why, *lasted, is_current=False))
            if one.exit_code:
                lasted = (seconds(one.started_at), seconds(one.finished_at))
                found.append(End(self.name, one.name, one.exit_code, one.reason or "Error", one.message, *lasted))
        return tuple(sorted(found, key=lambda end: end.at or 0.0))


_REASONS = {
    "deleting": "Terminating",
    "node": "NodeLost",
    "gated": "SchedulingGated",
    "unschedulable": "Unschedulable",
    "crash": "Crashed",
    "sshd": "NoSshd",
    "schedule": "Pending",
    "accept": "ContainerCreating",
    "pull": "ContainerCreating",
    "init": "PodInitializing",
}


@dataclass(frozen=True)
class Facts:
    """What is known of a job. `pods`, `events` and `output`, the end of its log, may be empty; `now` is epoch time.

    `pending`: what Kueue says of a queued job. `silent_since`: when a running launcher wrote its last line, or when it
    started if it has written none; None: its output was not read.
    """

    resource: Object
    pods: Sequence[Object]
    now: float
    events: Sequence[Object] = ()
    output: Sequence[str] = ()
    pending: Pending | None = None
    silent_since: float | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return str(part(self.resource, "metadata").get("name") or "")

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return str(part(self.resource, "metadata").get("namespace") or "")

    @cached_property
    def job(self) -> Job | None:
        """The job as our operator reads it; None if it has `problems`."""
        return None if isinstance(self._read, tuple) else self._read

    @property
    def implementation(self) -> Implementation:
        """The job's MPI: Open MPI, as by default, if it can't be read."""
        return Implementation.OPEN_MPI if self.job is None else self.job.implementation

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the job."""
        return self._read if isinstance(self._read, tuple) else ()

    @cached_property
    def _read(self) -> Job | tuple[Problem, ...]:
        return read(self.resource)

    @cached_property
    def conditions(self) -> list[Object]:
        """Its conditions, by kubeflow's types."""
        return conditions_of(self.resource)

    def condition(self, *wanted: Type) -> Object | None:
        """Return the first of these conditions that is True."""
        found = (conditions.true_condition(self.conditions, one) for one in wanted)
        return next((one for one in found if one is not None), None)

    @property
    def created_at(self) -> float | None:
        """When the job was created."""
        return seconds(part(self.resource, "metadata").get("creationTimestamp"))

    def time(self, field: str) -> float | None:
        """Return a time of the status."""
        return seconds(part(self.resource, "status").get(field))

    @property
    def is_being_deleted(self) -> bool:
        """Whether the job is being deleted."""
        return bool(part(self.resource, "metadata").get("deletionTimestamp"))

    @property
    def has_ended(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.condition(Type.SUCCEEDED, Type.FAILED) is not None

    @property
    def is_suspended(self) -> bool:
        """Whether the job is to have no pods for now."""
        if self.job is not None:
            return self.job.policy.is_suspended
        return part(self.resource, "spec", "runPolicy").get("suspend") is True

    @property
    def is_managed_elsewhere(self) -> bool:
        """Whether `managedBy` names a controller that is no MPI operator."""
        return is_managed_elsewhere(self.resource)

    @property
    def queue(self) -> str:
        """The queue that it was put into; "" without one: Kueue's, or a gang scheduler's, which suspends no job."""
        return self.kueue_queue or ("" if self.job is None else self.job.policy.scheduling.queue)

    @property
    def kueue_queue(self) -> str:
        """Kueue's queue, which suspends and resumes the job; "" without one."""
        metadata = part(self.resource, "metadata")
        for field in ("labels", "annotations"):  # training-operator takes Kueue's from either
            if name := part(metadata, field).get(KUEUE_QUEUE):
                return str(name)
        return ""

    @property
    def wanted(self) -> int:
        """How many workers the job wants."""
        return self.job.worker.replicas if self.job is not None else 0

    @property
    def slots(self) -> int:
        """How many ranks fit onto its hosts."""
        if self.job is None:
            return 0
        return self.job.slots * (self.wanted + self.job.launcher_is_worker)

    @cached_property
    def _pods(self) -> tuple[PodFacts, ...]:
        return tuple(PodFacts(pod, self.name) for pod in self.pods)

    @cached_property
    def launchers(self) -> tuple[PodFacts, ...]:
        """The launcher's pods, oldest first."""
        return tuple(pod for pod in self._pods if pod.index is None)

    @property
    def launcher(self) -> PodFacts | None:
        """The newest launcher."""
        return self.launchers[-1] if self.launchers else None

    @cached_property
    def workers(self) -> dict[int, PodFacts]:
        """The workers that are there, by index and in its order."""
        found = {pod.index: pod for pod in self._pods if pod.index is not None}
        return dict(sorted(found.items()))

    @cached_property
    def by_name(self) -> dict[str, PodFacts]:
        """The pods that are there, the launchers first, by name."""
        return {pod.name: pod for pod in (*self.launchers, *self.workers.values())}

    @property
    def ready(self) -> int:
        """How many of the wanted workers are ready."""
        return sum(pod.why is None for index, pod in self.workers.items() if index < self.wanted)

    def worker_name(self, index: int) -> str:
        """Return the name of a worker's pod, which need not be there."""
        return self.job.worker_name(index) if self.job is not None else f"{self.name}-{WORKER}-{index}"

    def waiting(self) -> list[tuple[str, NotReady, float]]:
        """Return the wanted workers that are not ready, why, and for how many seconds; in the order of their index."""
        found = []
        for index in range(self.wanted):
            pod = self.workers.get(index)
            why = not_ready(None) if pod is None else pod.why
            if why is not None:
                why = why if pod is None else held_back(why, pod.uid, self.events)
                since = (pod and pod.created_at) or self.created_at or self.now
                found.append((self.worker_name(index), why, max(0.0, self.now - since)))
        return found
