"""Applies manifests and follows their MPIJobs to the end: conditions, events, pods, and what the launchers write."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from . import logs, pods, resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .client import Client
    from .cluster import Cluster

Object = dict[str, Any]

_JOBS = {one.key for one in resources.JOBS}
_FOLLOWED = (*_JOBS, resources.EVENTS.key, resources.PODS.key)
_LAUNCHER = "launcher"  # of the label mpi-agents/role
_PAUSE_S = 0.05
SUCCESSES = frozenset({"Succeeded", "Completed"})  # kubeflow's and T9k's word
# A job has ended, or only an edit lets it start.
_VERDICTS = SUCCESSES | {"Failed", "ValidationError"}


class Follower:
    """Follows the jobs that it applies. `report` gets progress, `output` the launchers' lines.

    It takes the cluster's changes in their order, so that a job's end comes after all that its pods did.
    """

    def __init__(
        self, cluster: Cluster, client: Client, report: Callable[[str], None], output: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._report = report
        self._output = output
        self._printer = EventPrinter()
        self._jobs: list[Object] = []
        self._logs: dict[str, Log] = {}  # launchers' output, by pod's uid
        self._pods: dict[str, Object] = {}  # by uid, as they were last seen; those that are gone have no status
        self._launchers: dict[str, Object] = {}  # by job's uid, as they were last seen
        self._version = 0
        self._changes()  # what happened before is of no interest
        self.began = time.monotonic()
        self.marks: dict[str, float] = {}  # when a condition was first seen

    def apply(self, *bodies: Object) -> None:
        """Create the objects of manifests. Raises ClientError."""
        self.began = time.monotonic()
        for body in bodies:
            made = self._client.create(body)
            if any(made["kind"] == one.kind for one in resources.JOBS):
                self._jobs.append(made)

    def until(self, done: Callable[[], bool], check: Callable[[], None]) -> None:
        """Take what happens until a condition holds; `check` is called again and again, and may raise."""
        while True:
            for key, kind, thing in self._changes():
                self._take(key, kind, thing)
            for log in self._logs.values():
                for line in log.lines():
                    self._output(line)
            if done():
                return
            check()
            time.sleep(_PAUSE_S)

    def ended(self) -> bool:
        """Whether all jobs have ended, and their launchers' output is here."""
        has_verdicts = all(job["metadata"]["uid"] in self._printer.verdicts for job in self._jobs)
        return has_verdicts and all(log.is_complete for log in self._logs.values())

    def workers_left(self) -> bool:
        """Whether pods of the jobs still run."""
        return any(pod["status"].get("phase") == "Running" for pod in self._pods.values() if self._is_ours(pod))

    def exit_code(self) -> int:
        """0 if all jobs succeeded, else a launcher's exit code."""
        if (job := self.failed()) is None:
            return 0
        pod = self._launchers.get(job["metadata"]["uid"])
        return exit_code(pod, container_of(pod)) or 1 if pod is not None else 1

    def failed(self) -> Object | None:
        """The first job that did not succeed."""
        verdicts = self._printer.verdicts
        return next((job for job in self._jobs if verdicts.get(job["metadata"]["uid"]) not in SUCCESSES), None)

    def hub_log(self) -> str:
        """What the hub of the first job's last launcher has logged."""
        pod = self._launchers.get(self._jobs[0]["metadata"]["uid"]) if self._jobs else None
        return "" if pod is None else logs.read(self._log_path(pod, "hub")).decode(errors="replace")

    def _changes(self) -> list[tuple[str, str, Object]]:
        found = self._cluster.changes(self._version, _FOLLOWED)
        if found:
            self._version = int(found[-1][2]["metadata"]["resourceVersion"])
        return found

    def _take(self, key: str, kind: str, thing: Object) -> None:
        if key == resources.PODS.key:
            self._take_pod(kind, thing)
            if not self._is_ours(thing):
                return
        for line in self._printer.lines(key, kind, thing):
            self._report(f"{time.monotonic() - self.began:6.2f} s  {line}")
        for condition in self._printer.conditions:
            self.marks.setdefault(condition, time.monotonic() - self.began)

    def _take_pod(self, kind: str, pod: Object) -> None:
        uid, labels = pod["metadata"]["uid"], pod["metadata"].get("labels") or {}
        is_gone = kind == "DELETED"
        self._pods[uid] = {**pod, "status": {}} if is_gone else pod
        if labels.get("mpi-agents/role") != _LAUNCHER:
            return
        self._launchers[labels.get("mpi-agents/job-uid", "")] = pod
        container = container_of(pod)
        # A container that ends immediately may never be seen running, but waiting for its next start.
        if uid not in self._logs and not pods.waits(pod, container):
            self._logs[uid] = Log(self._log_path(pod, container))
        if uid in self._logs:
            self._logs[uid].is_over = is_gone or pods.is_over(pod, container)

    def _log_path(self, pod: Object, container: str) -> str:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        return os.path.join(self._cluster.folder, "pods", f"{name}.{uid[:8]}", f"{container}.log")

    def _is_ours(self, pod: Object) -> bool:
        uids = {job["metadata"]["uid"] for job in self._jobs}
        return (pod["metadata"].get("labels") or {}).get("mpi-agents/job-uid") in uids


class Log:
    """A container's output, as it grows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._rest = b""
        self.is_over = False  # nothing more is written
        self.is_complete = False  # and all of it was returned

    def lines(self) -> list[str]:
        """The lines that were added; the last one of all may have no line feed."""
        if self.is_complete:
            return []
        data = logs.read(self._path, self._at)
        self._at += len(data)
        *whole, self._rest = (self._rest + data).splitlines(keepends=True) or [b""]
        if self.is_over or self._rest.endswith(b"\n"):
            whole, self._rest = [*whole, self._rest], b""
        self.is_complete = self.is_over
        return [line.decode(errors="replace") for line in whole if line]


def container_of(pod: Object) -> str:
    """The user's container of a launcher pod: the default one."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get("kubectl.kubernetes.io/default-container") or pod["spec"]["containers"][0]["name"])


class EventPrinter:
    """A job's, its pods' and its events' changes as lines for people. It remembers what was printed."""

    def __init__(self) -> None:
        self._pods: dict[str, str] = {}
        self._printed: set[tuple[str, str]] = set()
        self.conditions: list[str] = []  # in the order in which they were first seen
        self.verdicts: dict[str, str] = {}  # the condition that ended a job, by the job's uid

    def lines(self, key: str, kind: str, thing: Object) -> Iterator[str]:
        """The lines for a change of an MPIJob, a pod or an event; `kind`: ADDED, MODIFIED or DELETED."""
        if key == resources.PODS.key:
            name, state = thing["metadata"]["name"], "gone" if kind == "DELETED" else state_of(thing)
            if self._pods.get(name) != state:
                yield f"pod       {name}: {state}"
            self._pods[name] = state
        elif key in _JOBS:
            yield from self._job(thing)
        else:
            about = thing.get("involvedObject", {})
            mark = "" if thing.get("type") == "Normal" else f"{thing.get('type')} "
            yield f"event     {about.get('name')}: {mark}{thing.get('reason')}: {thing.get('message')}"

    def _job(self, job: Object) -> Iterator[str]:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        for one in (job.get("status") or {}).get("conditions") or ():
            condition = one["type"]
            if one["status"] == "True" and (uid, condition) not in self._printed:
                self._printed.add((uid, condition))
                self.conditions.append(condition)
                yield f"condition {name}: {condition}: {one.get('message', '')}"
                if condition in _VERDICTS:
                    self.verdicts[uid] = condition


def state_of(pod: Object) -> str:
    """A pod's state in a word or three: kubectl's STATUS, or that it is ready."""
    status = pod["status"]
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    inits = status.get("initContainerStatuses", [])
    for one in [*inits, *status.get("containerStatuses", [])]:
        reason = one["state"].get("waiting", {}).get("reason", "")
        message = one["state"].get("waiting", {}).get("message", "")
        if reason not in {"", "PodInitializing", "ContainerCreating"} or message:
            return f"{reason}: {message}"
    if status["phase"] == "Pending" and inits:
        done = sum(1 for one in inits if one.get("started") or "terminated" in one["state"])
        return f"init containers {done}/{len(inits)}"
    if status["phase"] == "Running" and pods.is_ready(pod):
        return "Running, ready"
    return str(status["phase"])


def exit_code(pod: Object, container: str) -> int:
    """How a container ended the last time; 1 if that is not known."""
    for one in pod["status"].get("containerStatuses", ()):
        ended = one["state"].get("terminated") or one.get("lastState", {}).get("terminated")
        if one["name"] == container and ended:
            return int(ended["exitCode"])
    return 1
