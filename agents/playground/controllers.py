"""The cluster's own controllers, without I/O: the garbage collector, and Jobs as far as a launcher needs them.

A Job has one pod at a time, tried again up to backoffLimit.

Of the real one (pkg/controller/job) there are not: parallelism and completions beyond 1, indexes, podFailurePolicy.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

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
        active = [pod for pod in own if pod["status"]["phase"] not in {"Succeeded", "Failed"}]
        succeeded = [pod for pod in own if pod["status"]["phase"] == "Succeeded"]
        failed = [pod for pod in own if pod["status"]["phase"] == "Failed"]
        spec = job.get("spec") or {}
        limit = int(spec.get("backoffLimit", _BACK_OFF_LIMIT))
        restarts = sum(
            one.get("restartCount", 0) for pod in active for one in pod["status"].get("containerStatuses", ())
        )
        if spec.get("suspend"):
            self._end_all(active)
        elif succeeded:
            self._tell(
                job,
                active,
                succeeded,
                failed,
                "Complete",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )
            return
        elif len(failed) + restarts > limit:
            self._end_all(active)
            self._tell(
                job,
                [],
                succeeded,
                failed,
                "Failed",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )
            return
        elif not active:
            self._next(job, len(failed))
        self._tell(job, active, succeeded, failed)

    def _next(self, job: Object, failures: int) -> None:
        uid, meta = job["metadata"]["uid"], job["metadata"]
        if uid in self._waiting:
            return
        if not failures:
            self._create(job)
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

    def _tell(
        self,
        job: Object,
        active: list[Object],
        succeeded: list[Object],
        failed: list[Object],
        verdict: str = "",
        reason: str = "",
        message: str = "",
    ) -> None:
        before = job.get("status") or {}
        after = copy.deepcopy(before)
        suspended = bool((job.get("spec") or {}).get("suspend"))
        if not suspended:
            after.setdefault("startTime", self._store.timestamp())
        else:
            after.pop("startTime", None)
        ready = [pod for pod in active if _is_ready(pod)]
        after |= {"active": len(active), "ready": len(ready), "succeeded": len(succeeded), "failed": len(failed)}
        now = {
            "status": "True",
            "lastProbeTime": self._store.timestamp(),
            "lastTransitionTime": self._store.timestamp(),
        }
        if verdict:
            condition = {"type": verdict, "reason": reason, "message": message, **now}
            after["conditions"] = [*after.get("conditions", ()), condition]
            if verdict == "Complete":
                after["completionTime"] = self._store.timestamp()
        elif suspended or any(one["type"] == "Suspended" for one in after.get("conditions", ())):
            others = [one for one in after.get("conditions", ()) if one["type"] != "Suspended"]
            was = next((one for one in after.get("conditions", ()) if one["type"] == "Suspended"), None)
            words = ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
            if was is None or was["status"] != words[0]:
                was = {"type": "Suspended", **now, "status": words[0], "reason": words[1], "message": words[2]}
            after["conditions"] = [*others, was]
        if after == before:
            return
        self._store.replace(BATCH_JOBS.key, {**job, "status": after})


def _is_over(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
