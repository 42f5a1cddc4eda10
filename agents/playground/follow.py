"""Applies manifests and follows their MPIJobs to the end: conditions, events, pods, and what the launchers write."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from . import pods, resources
from .client import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .client import Client

Object = dict[str, Any]

_WATCHED = (*resources.JOBS, resources.EVENTS, resources.PODS)
_JOBS = {one.kind for one in resources.JOBS}
_LAUNCHER = "mpi-agents/role=launcher"
_LOOK_S = 1.0  # how often it is asked whether the operator is still there
SUCCESSES = frozenset({"Succeeded", "Completed"})  # kubeflow's and T9k's word
# A job has ended, or nothing but an edit lets it begin.
_VERDICTS = SUCCESSES | {"Failed", "ValidationError"}


class Follower:
    """Follows the jobs that it applies. `report` gets progress, `output` the launchers' lines."""

    def __init__(self, client: Client, report: Callable[[str], None], output: Callable[[str], None]) -> None:
        self._client = client
        self._report = report
        self._output = output
        self._queue: queue.Queue[Callable[[], None]] = queue.Queue()
        self._printer = EventPrinter()
        self._jobs: list[Object] = []
        self._logs: dict[str, bool] = {}  # launcher pods' uids → all of their output is here
        self._pods: dict[str, Object] = {}  # those there are, by namespace/name
        self._launchers: dict[str, Object] = {}  # by job's uid, as they were last seen
        self._has_listed = False
        self.began = time.monotonic()
        self.marks: dict[str, float] = {}  # when a condition was first seen
        for kind in _WATCHED:
            path = kind.path(kind.versions[0])
            version = client.list(path)["metadata"]["resourceVersion"]
            threading.Thread(target=self._watch, args=(kind.kind, path, version), daemon=True).start()

    def apply(self, *bodies: Object) -> None:
        """Create the objects of manifests. Raises ClientError."""
        self.began = time.monotonic()
        for body in bodies:
            made = self._client.create(body)
            if made["kind"] in _JOBS:
                self._jobs.append(made)

    def until(self, done: Callable[[], bool], check: Callable[[], None]) -> None:
        """Take what comes until a condition holds; `check` is called from time to time, and may raise."""
        while not done():
            try:
                self._queue.get(timeout=_LOOK_S)()
            except queue.Empty:
                check()

    def ended(self) -> bool:
        """Whether all jobs have ended, and their launchers' output is here."""
        if not all(job["metadata"]["uid"] in self._printer.verdicts for job in self._jobs):
            return False
        if not self._has_listed:  # each kind is watched by itself: what a job's pods did may come behind its end
            self._has_listed = True
            for pod in self._client.list(resources.PODS.path(resources.PODS.versions[0]))["items"]:
                self._take_pod("MODIFIED", pod)
        return all(self._logs.values())

    def workers_left(self) -> list[str]:
        """Pods of the jobs that still run."""
        return [name for name, pod in self._pods.items() if self._is_ours(pod) and pod["status"]["phase"] == "Running"]

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

    def launcher(self) -> Object | None:
        """The first job's launcher pod, as it was last seen."""
        return self._launchers.get(self._jobs[0]["metadata"]["uid"]) if self._jobs else None

    def _watch(self, kind: str, path: str, version: str) -> None:
        for event in self._client.watch(path, version):
            if event["type"] not in {"BOOKMARK", "ERROR"}:
                self._queue.put(lambda event=event: self._take(kind, event))  # type: ignore[misc]

    def _take(self, kind: str, event: Object) -> None:
        thing = event["object"]
        if kind == "Pod":
            self._take_pod(event["type"], thing)
            if not self._is_ours(thing):
                return
        for line in self._printer.lines(kind, event):
            self._report(f"{time.monotonic() - self.began:6.2f} s  {line}")
        for condition in self._printer.conditions:
            self.marks.setdefault(condition, time.monotonic() - self.began)

    def _take_pod(self, what: str, pod: Object) -> None:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if _version(pod) < _version(self._pods.get(name)):
            return
        if what == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = pod
        key, _, value = _LAUNCHER.partition("=")
        labels = pod["metadata"].get("labels") or {}
        if labels.get(key) != value:
            return
        self._launchers[labels.get("mpi-agents/job-uid", "")] = pod
        uid = pod["metadata"]["uid"]
        container = container_of(pod)
        # One that ends at once may never be seen running, but waiting for its next start.
        if uid not in self._logs and not pods.waits(pod, container):
            self._logs[uid] = False
            threading.Thread(target=self._read, args=(pod, container), daemon=True).start()

    def _read(self, pod: Object, container: str) -> None:
        meta = pod["metadata"]
        try:
            for line in self._client.follow(meta["namespace"], meta["name"], container):
                self._queue.put(lambda line=line: self._output(line))  # type: ignore[misc]
        except ClientError:
            pass  # the pod is gone already
        self._queue.put(lambda: self._logs.__setitem__(meta["uid"], True))

    def _is_ours(self, pod: Object) -> bool:
        uids = {job["metadata"]["uid"] for job in self._jobs}
        return (pod["metadata"].get("labels") or {}).get("mpi-agents/job-uid") in uids


def _version(thing: Object | None) -> int:
    """The stand-in counts its versions, as etcd does."""
    return int(thing["metadata"]["resourceVersion"]) if thing else 0


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

    def lines(self, kind: str, event: Object) -> Iterator[str]:
        """The lines for an event of a watch on MPIJobs, pods or events."""
        thing = event["object"]
        if kind == "Pod":
            name, state = thing["metadata"]["name"], "gone" if event["type"] == "DELETED" else state_of(thing)
            if self._pods.get(name) != state:
                yield f"pod       {name}: {state}"
            self._pods[name] = state
        elif kind in _JOBS:
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
