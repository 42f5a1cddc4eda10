"""The caches of all watched objects, indexed by job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from agents.job.json_object import Body, part
from agents.job.model import GROUP
from agents.job.status import is_finished
from agents.kube.api import Api
from agents.kube.kinds import (
    BATCH_JOB,
    CONFIG_MAP,
    JOBS,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
    pod_group_kind,
)
from agents.operator.informer import Informer
from agents.operator.metrics import Metrics
from agents.operator.objects.names import JOB_UID
from agents.operator.planning.view import Observed
from agents.operator.store import Store
from agents.operator.trim import Outline, job_uid


class Key(NamedTuple):
    """A job's key. Jobs of different API groups may have the same name."""

    namespace: str
    name: str
    group: str = GROUP

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" + ("" if self.group == GROUP else f" ({self.group})")


_FIELDS = {  # of Observed
    BATCH_JOB: "launcher_job",
    CONFIG_MAP: "config_map",
    SECRET: "secret",
    SERVICE: "service",
    SERVICE_ACCOUNT: "service_account",
    ROLE: "role",
    ROLE_BINDING: "role_binding",
}


def watched(gang_scheduler: str) -> dict[Kind, str]:
    """Return the kinds of objects that are created for jobs besides pods, and the fields of `Observed` for them."""
    return _FIELDS | ({pod_group_kind(gang_scheduler): "pod_group"} if gang_scheduler else {})


class Caches:
    """The stores of MPIJobs and of their objects. `on_job(key)` is called for each job that has changed."""

    def __init__(
        self, jobs: Iterable[Kind], gang_scheduler: str = "", on_job: Callable[[Key], None] = lambda _key: None
    ) -> None:
        """`jobs`: one kind, that is one version, of MPIJob for each API group."""
        self._on_job = on_job
        self._jobs = {kind.group: Store(kind, self._job_changed) for kind in jobs}
        self._fields = watched(gang_scheduler)
        self._made = {kind: Store(kind, self._changed) for kind in (POD, *self._fields)}
        self._gone: dict[str, Body] = {}  # by job, until it ends: the last pod of its launcher's Job that was deleted

    def jobs(self, group: str = GROUP) -> Store:
        """The store of a group's MPIJobs."""
        return self._jobs[group]

    def all_jobs(self) -> list[Body]:
        """Every MPIJob that is known."""
        return [job for store in self._jobs.values() for job in store.all()]

    def is_large(self, key: Key) -> bool:
        """Whether only an outline of the job is cached."""
        return isinstance(self._jobs[key.group].get(key.namespace, key.name), Outline)

    def store(self, kind: Kind) -> Store:
        """The store of a kind, whichever of its versions MPIJobs are read by."""
        return self._made[kind] if kind in self._made else self._jobs[kind.group]

    def informers(
        self, group: str, api: Api, metrics: Metrics, namespaces: Sequence[str], selector: str = ""
    ) -> list[Informer]:
        """Return informers, not yet started, for a group's MPIJobs; no namespaces: all. `selector`: by label."""
        return [
            Informer(api, self._jobs[group], metrics, namespace=namespace, selector=selector)
            for namespace in namespaces or (None,)
        ]

    def informers_of_made(
        self, api: Api, metrics: Metrics, namespaces: Sequence[str], on_synced: Callable[[], None] = lambda: None
    ) -> list[Informer]:
        """Return informers, not yet started, for the objects created for jobs."""
        return [
            Informer(api, store, metrics, namespace=namespace, selector=JOB_UID, on_synced=on_synced)
            for namespace in namespaces or (None,)
            for store in self._made.values()
        ]

    def observe(
        self,
        resource: Body,
        name_conflicts: frozenset[tuple[str, str]],
        rejected: Mapping[tuple[str, str], str],
        seen_at: float = 0.0,
    ) -> Observed:
        """What is known of a job; nothing that is there stays `rejected`, whoever made or labelled it."""
        uid = resource["metadata"]["uid"]
        single: Body = {}
        there: set[tuple[str, str]] = set()
        for kind, name in self._fields.items():
            for body in self._of(resource, kind):
                if controller(body) == uid:
                    single[name] = body
                    there.add((kind.name, body["metadata"]["name"]))
        # Also of a batch Job that is gone: its pods have their grace period, and no other launcher runs meanwhile.
        found = self._of(resource, POD)
        pods = tuple(pod for pod in found if controller(pod) == uid or _is_launcher(pod, resource))
        there.update((POD.name, pod["metadata"]["name"]) for pod in pods)
        still = {wanted: message for wanted, message in rejected.items() if wanted not in there}
        gone = self._gone.get(uid)
        if gone is not None and controller(gone) == part(single.get("launcher_job"), "metadata").get("uid"):
            single["gone_launcher"] = gone
        return Observed(resource, pods, name_conflicts=name_conflicts, rejected=still, seen_at=seen_at, **single)

    def _of(self, resource: Body, kind: Kind) -> list[Body]:
        """A job's objects. Only of its namespace: in another one a user can give a pod any label and owner."""
        metadata = resource["metadata"]
        found = self._made[kind].of_job(metadata["uid"])
        return [body for body in found if body["metadata"].get("namespace") == metadata.get("namespace")]

    def _job_changed(self, before: Body | None, after: Body | None) -> None:
        body = after or before
        if body is None:
            return
        if after is None or is_finished(after):
            self._gone.pop(body["metadata"]["uid"], None)
        self._on_job(key_of(body))

    def _changed(self, before: Body | None, after: Body | None) -> None:
        for body in (before, after):
            for store in self._jobs.values():
                for job in store.of_job(job_uid(body)):  # none: it is not known yet, or gone
                    if before is not None and after is None and _is_launcher(before, job) and not is_finished(job):
                        self._gone[job["metadata"]["uid"]] = before  # how it failed may not be written yet
                    self._job_changed(None, job)
        if before is not None and after is None:
            self._freed(before)

    def _freed(self, body: Body) -> None:
        """Queue a new job that waits for an object of an earlier job of the same name."""
        by = owner(body)
        for store in self._jobs.values() if by.get("kind") in JOBS else ():
            job = store.get(body["metadata"].get("namespace", ""), by.get("name", ""))
            if job is not None and job["metadata"]["uid"] != by.get("uid"):
                self._job_changed(None, job)


def group_of(body: Body) -> str:
    """Return the API group of an object, or of an owner reference: "" for the core's."""
    return str(body.get("apiVersion", "")).rpartition("/")[0]


def key_of(job: Body) -> Key:
    """Return the key of an MPIJob."""
    return Key(job["metadata"].get("namespace", ""), job["metadata"]["name"], group_of(job))


def _is_launcher(pod: Body, job: Body) -> bool:
    """Whether an object is a pod of the batch Job of a job's launcher: none of those has a worker's name."""
    by, metadata, name = owner(pod), pod["metadata"], job["metadata"]["name"]
    is_near = metadata.get("namespace") == job["metadata"].get("namespace")
    is_owned = (by.get("kind"), by.get("name")) == (BATCH_JOB.name, f"{name}-launcher")
    return is_near and is_owned and not metadata["name"].startswith(f"{name}-worker-")


def owner(body: Body) -> Body:
    """Return the reference to an object's controller, {} if it has none."""
    return next((one for one in body["metadata"].get("ownerReferences") or () if one.get("controller")), {})


def controller(body: Body) -> str:
    """Return the uid of an object's controller, "" if it has none."""
    return str(owner(body).get("uid", ""))
