"""All that is watched, and what of it belongs to one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.operator.informer import Informer
from agents.operator.kinds import (
    BATCH_JOB,
    CONFIG_MAP,
    POD,
    ROLE,
    ROLE_BINDING,
    SCHEDULER_PLUGINS_POD_GROUP,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLCANO_POD_GROUP,
    Kind,
)
from agents.operator.observed import Observed
from agents.operator.store import Store
from agents.operator.trim import JOB_UID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agents.operator.api import Api
    from agents.operator.metrics import Metrics

Body = dict[str, Any]
Key = tuple[str, str]  # a job's namespace and name

_MADE = (POD, BATCH_JOB, CONFIG_MAP, SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)
_FIELDS = {  # of Observed
    BATCH_JOB: "launcher_job",
    CONFIG_MAP: "config_map",
    SERVICE: "service",
    SERVICE_ACCOUNT: "service_account",
    ROLE: "role",
    ROLE_BINDING: "role_binding",
    VOLCANO_POD_GROUP: "pod_group",
    SCHEDULER_PLUGINS_POD_GROUP: "pod_group",
}


def watched(gang_scheduler: str) -> tuple[Kind, ...]:
    """The kinds of objects that are made for jobs."""
    if not gang_scheduler:
        return _MADE
    return (*_MADE, VOLCANO_POD_GROUP if gang_scheduler == "volcano" else SCHEDULER_PLUGINS_POD_GROUP)


class Caches:
    """The stores of MPIJobs and of what is made for them. `on_job(key)` is told which job has changed."""

    def __init__(self, jobs: Kind, gang_scheduler: str = "") -> None:
        self.jobs = Store(jobs)
        self._stores = {kind: Store(kind) for kind in watched(gang_scheduler)}
        self.on_job: Callable[[Key], None] = lambda _key: None
        self.jobs.on_change = self._job_changed
        for store in self._stores.values():
            store.on_change = self._changed

    def store(self, kind: Kind) -> Store:
        """The store of a kind."""
        return self.jobs if kind.name == self.jobs.kind.name else self._stores[kind]

    def informers(self, api: Api, metrics: Metrics, namespaces: Sequence[str], selector: str = "") -> list[Informer]:
        """What keeps the stores true, not yet started; no namespaces: all. `selector`: which MPIJobs, by label."""
        made: list[Informer] = []
        for namespace in namespaces or (None,):
            made.append(Informer(api, self.jobs, metrics, namespace=namespace, selector=selector))
            made += [
                Informer(api, store, metrics, namespace=namespace, selector=JOB_UID) for store in self._stores.values()
            ]
        return made

    def observe(
        self, resource: Body, taken: frozenset[tuple[str, str]], refused: Mapping[tuple[str, str], str]
    ) -> Observed:
        """What is known of a job."""
        uid = resource["metadata"]["uid"]
        single: Body = {}
        for kind, name in _FIELDS.items():
            for body in self._stores[kind].of_job(uid) if kind in self._stores else ():
                if controller(body) == uid:
                    single[name] = body
        # Also of a batch Job that is gone already: its pods have their grace period, and no launcher runs beside them.
        launcher = f"{resource['metadata']['name']}-launcher"
        pods = tuple(pod for pod in self._stores[POD].of_job(uid) if _is_controlled(pod, uid, launcher))
        return Observed(resource, pods, taken=taken, refused=refused, **single)

    def _job_changed(self, before: Body | None, after: Body | None) -> None:
        body = after or before
        if body is not None:
            self.on_job((body["metadata"].get("namespace", ""), body["metadata"]["name"]))

    def _changed(self, before: Body | None, after: Body | None) -> None:
        for body in (before, after):
            uid = (body["metadata"].get("labels") or {}).get(JOB_UID, "") if body else ""
            for job in self.jobs.of_job(uid):  # none: it is not known yet, or gone, and then this is not our business
                self._job_changed(None, job)


def _is_controlled(pod: Body, uid: str, launcher: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    by: Body = next((owner for owner in owners if owner.get("controller")), {})
    return by.get("uid") == uid or (by.get("kind"), by.get("name")) == ("Job", launcher)


def controller(body: Body) -> str:
    """Return the uid of an object's controller, "" if it has none."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("controller")), "")
