"""The cluster's own controllers, without I/O: the garbage collector, and Jobs as far as a launcher needs them.

A Job has one pod at a time, tried again up to backoffLimit.

Of the real one (pkg/controller/job) there are not: parallelism and completions beyond 1, indexes, podFailurePolicy.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

from .pods import is_ready
from .resources import BATCH_JOBS, PODS, RESOURCES, Target
from .writes import RefusedError, created

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rest import ObjectApi
    from .store import Change

Object = dict[str, Any]
_COLLECT_S = 0.05  # a real one takes a second or so
_BACK_OFF_LIMIT, _BACK_OFF_S = 6, 0.1  # the API's default; the first wait, which is 10 s in a cluster
_BACK_OFF_MAX_S = 1.0
_PREFIX = "batch.kubernetes.io/"
Condition = tuple[str, str, str, str]  # type, status, reason, message
_SUSPENDED: Condition = ("Suspended", "True", "JobSuspended", "Job suspended")
_RESUMED: Condition = ("Suspended", "False", "JobResumed", "Job resumed")
_COMPLETE: Condition = ("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods")
_FAILED: Condition = ("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")


class Collector:
    """Has garbage collected whenever there may be some. `later` calls a function in so many seconds."""

    def __init__(self, api: ObjectApi, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._api = api
        self._later = later
        self._due = False
        for resource in RESOURCES:
            api.store.subscribe(resource.key, self._changed)

    def _changed(self, change: Change) -> None:
        meta = change.after["metadata"]
        may_have = (
            change.kind == "DELETED" or "finalizers" in meta or (change.kind == "ADDED" and "ownerReferences" in meta)
        )
        if may_have and not self._due:
            self._due = True
            self._later(_COLLECT_S, self._collect)

    def _collect(self) -> None:
        self._due = False
        self._api.deletion.collect()


class JobController:
    """Looks at a Job whenever it or one of its pods changes."""

    def __init__(self, api: ObjectApi, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._api = api
        self._store = api.store
        self._later = later
        self._waiting: set[str] = set()  # uids of Jobs whose next pod is due later
        self._store.subscribe(BATCH_JOBS.key, self._job_changed)
        self._store.subscribe(PODS.key, self._pod_changed)

    def _job_changed(self, change: Change) -> None:
        if change.kind != "DELETED":
            self._soon(change.after["metadata"]["namespace"], change.after["metadata"]["name"])

    def _pod_changed(self, change: Change) -> None:
        meta = change.after["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") == BATCH_JOBS.kind:
                self._soon(meta["namespace"], owner["name"])

    def _soon(self, namespace: str, name: str) -> None:
        self._later(0.0, lambda: self._look(namespace, name))

    def _look(self, namespace: str, name: str) -> None:
        job = self._store.get(BATCH_JOBS.key, namespace, name)
        if job is None or "deletionTimestamp" in job["metadata"] or _is_over(job):
            return
        own = [pod for pod in self._store.all(PODS.key, namespace) if _owner(pod) == job["metadata"]["uid"]]
        ended = Counter(pod["status"]["phase"] for pod in own)
        active = [pod for pod in own if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
        spec, condition = job.get("spec") or {}, _RESUMED
        restarts = sum(
            one.get("restartCount", 0) for pod in active for one in pod["status"].get("containerStatuses", ())
        )
        if spec.get("suspend"):
            condition = _SUSPENDED
            self._end_all(active)
        elif ended["Succeeded"]:
            condition = _COMPLETE
        elif ended["Failed"] + restarts > int(spec.get("backoffLimit", _BACK_OFF_LIMIT)):
            condition = _FAILED
            self._end_all(active)
            active = []
        elif not active:
            self._next(job, ended["Failed"])
        self._write_status(job, active, ended, condition)

    def _next(self, job: Object, failures: int) -> None:
        """Create a pod, after a pause if there were others. It sees to it that there is only one at a time."""
        uid, meta = job["metadata"]["uid"], job["metadata"]
        if not failures:
            self._create(job)
        if not failures or uid in self._waiting:
            return
        self._waiting.add(uid)

        def due() -> None:
            self._waiting.discard(uid)
            now = self._store.get(BATCH_JOBS.key, meta["namespace"], meta["name"])
            if now is not None and now["metadata"]["uid"] == uid and not (now["spec"].get("suspend") or _is_over(now)):
                self._create(now)

        self._later(min(_BACK_OFF_S * 2 ** (failures - 1), _BACK_OFF_MAX_S), due)

    def _create(self, job: Object) -> None:
        meta, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
        labels = {f"{_PREFIX}job-name": meta["name"], f"{_PREFIX}controller-uid": meta["uid"], "job-name": meta["name"]}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        own = template.setdefault("metadata", {})
        own |= {
            "generateName": f"{meta['name']}-",
            "labels": {**(own.get("labels") or {}), **labels},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        target = Target(PODS, "v1", meta["namespace"], "", "")
        try:
            self._api.make_pod(created(self._store, target, template, "job-controller"))
        except RefusedError:
            self._later(_BACK_OFF_S, lambda: self._look(meta["namespace"], meta["name"]))

    def _end_all(self, active: list[Object]) -> None:
        for pod in active:
            if "deletionTimestamp" not in pod["metadata"]:
                self._api.deletion.remove(PODS.key, pod)

    def _write_status(self, job: Object, active: list[Object], ended: Counter[str], condition: Condition) -> None:
        before, now = job.get("status") or {}, self._store.timestamp()
        after = {"startTime": now, **before, "active": len(active), "ready": sum(map(is_ready, active))}
        after |= {"succeeded": ended["Succeeded"], "failed": ended["Failed"]}
        if condition == _SUSPENDED:
            del after["startTime"]
        if condition == _COMPLETE:
            after["completionTime"] = now
        kind, status, reason, message = condition
        others = [one for one in before.get("conditions", ()) if one["type"] != kind]
        same = [one for one in before.get("conditions", ()) if one["type"] == kind]
        if [one["status"] for one in same] != [status] and (same or condition != _RESUMED):
            told = {"type": kind, "status": status, "reason": reason, "message": message}
            after["conditions"] = [*others, {**told, "lastProbeTime": now, "lastTransitionTime": now}]
        if after != before:
            self._store.replace(BATCH_JOBS.key, {**job, "status": after})


def _is_over(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")
