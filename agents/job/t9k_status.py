"""T9k's status: conditions, phase, tasks and counters as in its MPIJob document. Pure.

Behind it a job's conditions are kubeflow's, and so is what they mean:

| T9k's | kubeflow's | |
|---|---|---|
| Initialized | Created | False until all that the job needs has been made |
| Running | Running | stays True when the job has ended, as in the document's example: it has started |
| ReplicaFailure | | made of what our own conditions say, and of the pods that have failed |
| Completed | Succeeded | False beside Failed, as in the document's example |
| Failed | Failed | |
| Paused | Suspended | False when it is resumed |

Further fields are ours: startTime, completionTime, lastReconcileTime, replicaStatuses, readyWorkers, launchCommand; our
own conditions stand behind T9k's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agents.job import conditions
from agents.job.conditions import Condition, Type
from agents.job.json_object import Body, Object, mappings
from agents.job.model import WORKER

LISTED_MAX = 4000  # replicas of one task: with more, a status would outgrow what etcd takes

_TYPES = {
    "Initialized": Type.CREATED,
    "Initializing": Type.CREATED,  # so the document's example
    "Running": Type.RUNNING,
    "Completed": Type.SUCCEEDED,
    "Failed": Type.FAILED,
    "Paused": Type.SUSPENDED,
}
_TRANSLATED = frozenset(map(str, _TYPES.values()))
_REPLICA_FAILURE = "ReplicaFailure"
_FIELDS = ("lastTransitionTime", "status", "message", "reason", "type")
_NORMAL = "All pods are running normally."
_PROBLEM_REASONS = {  # our reasons for ReplicaFailure
    (Type.WORKERS_READY, "False"): ("WorkersInTrouble", "WorkerStuck"),
    (Type.LAUNCHER_WAITING, "True"): ("LauncherInTrouble", "LauncherStuck", "LauncherFailed"),
    (Type.RESTARTING, "True"): ("Restarting",),
}
_NAMES_MAX = 3


class Phase(StrEnum):
    """A replica's: a Pod's phase, or that it has none yet, or no more."""

    CREATING = "Creating"  # not there yet, or on no node
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    DELETED = "Deleted"


_PHASES = {str(phase): phase for phase in Phase}


@dataclass(frozen=True, slots=True)
class Replica:
    """A pod of the job; `uid` is "" as long as it was not made. `containers`: those that ended, by their exit codes."""

    name: str
    phase: Phase
    uid: str = ""
    containers: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> Body:
        """Return it as the document writes it."""
        containers = [
            {"name": name, "containerPhase": "Terminated", "exitCode": code} for name, code in self.containers
        ]
        return {"phase": str(self.phase), "name": self.name, "uid": self.uid, "containers": containers}


@dataclass(frozen=True, slots=True)
class Task:
    """The pods of one role."""

    type: str
    restarts: int
    replicas: tuple[Replica, ...]


def from_t9k(found: Iterable[Condition]) -> list[Condition]:
    """Return T9k's conditions as kubeflow's."""
    listed = list(found)
    has_ended = any(one.get("status") == "True" and one.get("type") in ("Completed", "Failed") for one in listed)
    read = []
    for one in listed:
        wanted = _TYPES.get(str(one.get("type")))
        is_true = one.get("status") == "True"
        if one.get("type") == _REPLICA_FAILURE or (wanted is Type.SUCCEEDED and not is_true):
            continue
        over = {"status": "False"} if wanted is Type.RUNNING and has_ended else {}
        read.append({**one, "type": str(wanted), **over} if wanted is not None else one)
    return read


def replicas_of(status: Object, role: str) -> dict[str, Replica]:
    """Return the replicas of a role in a status, by name."""
    found = {}
    for task in mappings(status.get("tasks")):
        if task.get("type") == role:
            for one in mappings(task.get("replicas") or task.get("status")):
                name, phase_ = str(one.get("name")), _PHASES.get(str(one.get("phase")))
                if phase_ is not None:
                    found[name] = Replica(name, phase_, str(one.get("uid", "")), _containers(one))
    return found


def tasks(resource: Object, made: Sequence[Task]) -> Body:
    """Return the fields `tasks` and `aggregate`; a list of replicas is named as its generation of the spec names it."""
    spec = resource.get("spec")
    listed = "replicas" if isinstance(spec, dict) and ("replicaSpecs" in spec or "mpiConfig" in spec) else "status"
    counted = Counter(replica.phase for task in made for replica in task.replicas)
    return {
        "tasks": [
            {"type": task.type, "restartCount": task.restarts, listed: [one.as_json() for one in _listed(task)]}
            for task in made
        ],
        "aggregate": {str(phase).lower(): counted[phase] for phase in Phase},
    }


def to_t9k(status: Object, before: Object, now: str, *, is_readable: bool) -> Body:
    """Return a status with kubeflow's conditions as T9k's. `before`: T9k's, as it is; not `is_readable`: the spec."""
    found = status["conditions"]
    named = {str(one.get("type")): one for one in mappings(before.get("conditions"))}
    shown = {str(kind): conditions.find(found, kind) for kind in conditions.KUBEFLOW}
    has_ended = conditions.is_true(found, *conditions.ENDS)
    failed, running = shown[Type.FAILED], shown[Type.RUNNING]
    if has_ended and named.get("Running", {}).get("status") == "True":
        running = named["Running"]
    made = {
        "Initialized": shown[Type.CREATED],
        "Running": running,
        _REPLICA_FAILURE: _replica_failure(status, named, now),
        "Completed": shown[Type.SUCCEEDED] or (failed and {**failed, "status": "False"}),
        "Failed": failed,
        "Paused": shown[Type.SUSPENDED],
    }
    ours = [one for one in found if str(one.get("type")) not in _TRANSLATED]
    theirs = [{key: one[key] for key in _FIELDS if key in one} | {"type": kind} for kind, one in made.items() if one]
    return {**status, "conditions": [*theirs, *ours], "phase": phase(found, is_readable=is_readable)}


def phase(found: Sequence[Condition], *, is_readable: bool = True) -> str:
    """Return the job's phase, by kubeflow's conditions."""
    for kind, name in ((Type.SUCCEEDED, "Succeeded"), (Type.FAILED, "Failed")):
        if conditions.is_true(found, kind):
            return name
    if not is_readable:
        return "Unknown"
    for kind, name in ((Type.SUSPENDED, "Paused"), (Type.RUNNING, "Running"), (Type.RESTARTING, "Pending")):
        if conditions.is_true(found, kind):
            return name
    return "Pending" if conditions.find(found, Type.SUSPENDED) is None else "Resuming"


def _replica_failure(status: Object, named: Mapping[str, Condition], now: str) -> Condition | None:
    """For an ended job it reports what failed, or else keeps its last message."""
    found, before = status["conditions"], named.get(_REPLICA_FAILURE)
    failed = [name for name, one in replicas_of(status, WORKER).items() if one.phase is Phase.FAILED]
    has_ended = conditions.is_true(found, *conditions.ENDS)
    problem = _problem(found)
    if not problem and failed:
        more = f" and {len(failed) - _NAMES_MAX} more" if len(failed) > _NAMES_MAX else ""
        problem = f"{', '.join(failed[:_NAMES_MAX])}{more} failed"
    if problem:
        return conditions.stated(before, _REPLICA_FAILURE, "True", "Failed", problem, now)
    if has_ended:
        return before
    if conditions.is_true(found, Type.SUSPENDED):
        return before and conditions.stated(before, _REPLICA_FAILURE, "False", "-", "The job is paused.", now)
    if conditions.is_true(found, Type.RUNNING):
        return conditions.stated(before, _REPLICA_FAILURE, "False", "-", _NORMAL, now)
    return before and conditions.stated(before, _REPLICA_FAILURE, "False", "-", "No replica is in trouble.", now)


def _problem(found: Sequence[Condition]) -> str:
    for (kind, status), reasons in _PROBLEM_REASONS.items():
        one = conditions.find(found, kind)
        if one is not None and one.get("status") == status and one.get("reason") in reasons:
            return str(one.get("message"))
    return ""


def _listed(task: Task) -> Iterable[Replica]:
    """Those that were made; of too many, those that don't just run."""
    made = [one for one in task.replicas if one.uid]
    if len(made) <= LISTED_MAX:
        return made
    return [one for one in made if one.phase is not Phase.RUNNING][:LISTED_MAX]


def _containers(entry: Object) -> tuple[tuple[str, int], ...]:
    codes = [(str(one.get("name")), one.get("exitCode")) for one in mappings(entry.get("containers"))]
    return tuple((name, code) for name, code in codes if isinstance(code, int))
