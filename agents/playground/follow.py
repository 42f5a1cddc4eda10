"""Applies manifests and follows their MPIJobs to the end: conditions, events, pods, and what the launchers write."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from agents.common.not_ready import STARTING
from agents.common.pods import parse

from . import logs, resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

    def __init__(self, cluster: Cluster, report: Callable[[str], None], output: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._report = report
        self._output = output
        self._printer = EventPrinter()
        self._began = time.monotonic()
        self._jobs: list[Object] = []
        self._logs: dict[str, Log] = {}  # launchers' output, by pod's uid
        self._writing: set[str] = set()  # those of them that run
        self._launchers: dict[str, Object] = {}  # by job's uid, as they were last seen
        self._version = 0
        self._changes()  # what happened before is of no interest

    def apply(self, *bodies: Object) -> None:
        """Create the objects of manifests. Raises ClusterError."""
        self._began = time.monotonic()
        for body in bodies:
            made = self._cluster.create(body)
            if any(made["kind"] == one.kind for one in resources.JOBS):
                self._jobs.append(made)

    def until(self, done: Callable[[], bool], check: Callable[[], None]) -> None:
        """Take what happens until a condition holds; `check` is called again and again, and may raise."""
        while True:
            for key, kind, thing in self._changes():
                self._take(key, kind, thing)
            for uid, log in self._logs.items():
                for line in log.lines(is_over=uid not in self._writing):
                    self._output(line)
            if done():
                return
            check()
            time.sleep(_PAUSE_S)

    def ended(self) -> bool:
        """Whether all jobs have ended, and their launchers."""
        return not self._writing and all(job["metadata"]["uid"] in self._printer.verdicts for job in self._jobs)

    def exit_code(self) -> int:
        """0 if all jobs succeeded, else a launcher's exit code; 1 if that is not known."""
        if (job := self.failed()) is None:
            return 0
        main = parse(self._launchers.get(job["metadata"]["uid"], {})).container(None)
        if main is None:
            return 1
        return (main.last_exit_code if main.exit_code is None else main.exit_code) or 1

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
            labels = thing["metadata"].get("labels") or {}
            job = labels.get("mpi-agents/job-uid", "")
            if job not in {one["metadata"]["uid"] for one in self._jobs}:
                return
            if labels.get("mpi-agents/role") == _LAUNCHER:
                self._launchers[job] = thing
                self._take_launcher(thing, is_gone=kind == "DELETED")
        for line in self._printer.lines(key, kind, thing):
            self._report(f"{time.monotonic() - self._began:6.2f} s  {line}")

    def _take_launcher(self, pod: Object, *, is_gone: bool) -> None:
        uid, main = pod["metadata"]["uid"], parse(pod).container(None)
        # A container that ends immediately may never be seen running, but waiting for its next start.
        if main is None or (main.state == "waiting" and main.last_exit_code is None):
            return
        if uid not in self._logs:
            self._logs[uid] = Log(self._log_path(pod, main.name))
        if is_gone or main.state == "terminated":
            self._writing.discard(uid)
        else:
            self._writing.add(uid)

    def _log_path(self, pod: Object, container: str) -> str:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        return os.path.join(self._cluster.folder, "pods", f"{name}.{uid[:8]}", f"{container}.log")


class Log:
    """A container's output, as it grows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def lines(self, *, is_over: bool) -> list[str]:
        """The lines that were added; where nothing more is written, the last one may have no line feed."""
        data = logs.read(self._path, self._at)
        self._at += len(data)
        found = (self._rest + data).splitlines(keepends=True)
        self._rest = found.pop() if found and not is_over and not found[-1].endswith(b"\n") else b""
        return [line.decode(errors="replace") for line in found]


class EventPrinter:
    """A job's, its pods' and its events' changes as lines for people. It remembers what was printed."""

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}  # the condition that ended a job, by the job's uid
        self._pods: dict[str, str] = {}
        self._printed: set[tuple[str, str]] = set()

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
                yield f"condition {name}: {condition}: {one.get('message', '')}"
                if condition in _VERDICTS:
                    self.verdicts[uid] = condition


def state_of(raw: Object) -> str:
    """A pod's state in a word or three: kubectl's STATUS, or that it is ready."""
    pod = parse(raw)
    if pod.deleting:
        return "Terminating"
    for one in pod.containers:
        if one.state == "waiting" and (one.message or one.reason not in STARTING):
            return f"{one.reason}: {one.message}"
    inits = [one for one in pod.containers if one.init]
    if pod.phase == "Pending" and inits:
        done = sum(one.state == "terminated" or (one.sidecar and one.ready) for one in inits)
        return f"init containers {done}/{len(inits)}"
    return "Running, ready" if pod.ready else pod.phase
