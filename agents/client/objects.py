"""A job's objects as the API server has them: kubeflow's and T9k's MPIJobs, whichever operator runs them.

| operator | label of a job's pods |
|---|---|
| ours, kubeflow's API | training.kubeflow.org/job-name, mpi-agents/job-uid |
| ours, T9k's API | mpi-agents/job-uid |
| mpi-operator v2beta1 and training-operator v1 | training.kubeflow.org/job-name |
| mpi-operator v1 | mpi-job-name |

A label is no proof: a pod counts if the job, or the launcher's batch Job, is its controller.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from agents.client.connection import Connection
from agents.client.errors import NotFoundError
from agents.client.facts import Facts
from agents.job.json_object import Body, Object, mappings, part
from agents.job.model import LAUNCHER, PREFIX, WORKER, is_t9k, is_virtual
from agents.kube.kinds import EVENT, MPI_JOB_T9K, MPI_JOB_V1, MPI_JOB_V2BETA1, POD, VIRTUAL_CLUSTER, Kind

_VERSIONS = (MPI_JOB_V2BETA1, MPI_JOB_V1)  # of kubeflow's: one operator serves the first, another one the second
_JOB_NAME, _OLD_JOB_NAME, _JOB_UID = "training.kubeflow.org/job-name", "mpi-job-name", f"{PREFIX}job-uid"
_UNKNOWN = "this cluster knows no MPIJobs: install mpi-agents (docs/install.md), or choose another --context"
_POD = re.compile(rf"(.+)-(?:{LAUNCHER}(?:-[a-z0-9]{{5}})?|{WORKER}-\d+)")
_EVENTS_MAX = 500  # looked at of one object
_KNOWN_MAX = 1000  # jobs that are remembered
_ASKED_MAX = 5  # launchers, and workers, whose events are asked for

_K = TypeVar("_K")
_V = TypeVar("_V")


def kind_of(resource: Object) -> Kind:
    """Return the kind that serves this job."""
    if is_t9k(resource):
        return MPI_JOB_T9K
    if is_virtual(resource):
        return VIRTUAL_CLUSTER
    return MPI_JOB_V1 if resource.get("apiVersion") == MPI_JOB_V1.api_version else MPI_JOB_V2BETA1


def path_of(resource: Object, subresource: str | None = None) -> str:
    """Return the URL's path of a job."""
    metadata = part(resource, "metadata")
    return kind_of(resource).path(str(metadata.get("namespace")), str(metadata.get("name")), subresource)


class Objects:
    """Reads jobs, their pods and their events."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kinds: dict[tuple[str, str], Kind] = {}  # as which jobs were found last, by namespace and name
        self._labels: dict[str, str] = {}  # by which jobs' pods were found last, by uid

    def jobs(self, namespace: str | None) -> list[Body]:
        """Return all MPIJobs of a namespace, or of all. Raises NotFoundError if the cluster knows none."""
        found: list[Body] = []
        is_served = False
        for kinds in (_VERSIONS, (MPI_JOB_T9K,)):
            for kind in kinds:
                try:
                    found += self._connection.items(kind.path(namespace))
                except NotFoundError:
                    continue
                is_served = True
                break
        if not is_served:
            raise NotFoundError(_UNKNOWN)
        return found

    def served(self) -> tuple[Kind, ...]:
        """Return which versions of MPIJobs the API server serves."""
        return tuple(kind for kind in (*_VERSIONS, MPI_JOB_T9K) if self.is_served(kind))

    def versions(self) -> tuple[str, ...]:
        """Return which versions of kubeflow's MPIJob are served. Raises NotFoundError if none is."""
        found = [kind.api_version.rpartition("/")[2] for kind in _VERSIONS if self.is_served(kind)]
        if not found:
            raise NotFoundError(_UNKNOWN)
        return tuple(found)

    def is_served(self, kind: Kind) -> bool:
        """Return whether the API server knows a kind."""
        try:
            served = self._connection.get(f"/apis/{kind.api_version}")
        except NotFoundError:
            return False
        return any(one.get("name") == kind.plural for one in mappings(served.get("resources")))

    def job(self, namespace: str, name: str) -> Body:
        """Return an MPIJob: kubeflow's if there is one of this name, else T9k's. Raises NotFoundError."""
        known = self._kinds.get((namespace, name))
        for kind in dict.fromkeys((*([known] if known else []), *_VERSIONS, MPI_JOB_T9K)):
            try:
                found = self._connection.get(kind.path(namespace, name))
            except NotFoundError:
                continue
            _remember(self._kinds, (namespace, name), kind)
            return {"apiVersion": kind.api_version, "kind": kind.name, **found}
        of_pod = _POD.fullmatch(name)
        hint = f"name the job ({of_pod[1]}?), not its pod" if of_pod else "`kubectl mpi list -A` shows all"
        raise NotFoundError(f'no MPIJob "{name}" in namespace "{namespace}": {hint}')

    def pods(self, resource: Object, *, may_be_old: bool = False) -> list[Body]:
        """Return a job's pods, oldest first. `may_be_old`: as the API server has them in memory: that costs it less."""
        metadata = part(resource, "metadata")
        path, uid = POD.path(str(metadata.get("namespace"))), str(metadata.get("uid"))
        key, value = _label(resource)
        known = self._labels.get(uid)
        age = {"resourceVersion": "0"} if may_be_old else {}
        for label in [known] if known else [key] if key == _JOB_UID else [key, _OLD_JOB_NAME]:
            if found := [*owned(resource, self._connection.items(path, labelSelector=f"{label}={value}", **age))]:
                _remember(self._labels, uid, label)
                return sorted(found, key=lambda pod: str(part(pod, "metadata").get("creationTimestamp")))
        return []

    def pods_by_job(self, resources: Sequence[Object], namespace: str | None) -> dict[str, list[Body]]:
        """Return the pods of many jobs, by the jobs' uids, by at most two lists. mpi-operator v1's are not found."""
        labelled: dict[tuple[str, str, str], list[Body]] = defaultdict(list)
        for key in sorted({_label(one)[0] for one in resources}):
            for pod in self._connection.items(POD.path(namespace), labelSelector=key):
                metadata = part(pod, "metadata")
                labelled[str(metadata.get("namespace")), key, str(part(metadata, "labels").get(key))].append(pod)
        found = {}
        for one in resources:
            metadata = part(one, "metadata")
            candidates = labelled.get((str(metadata.get("namespace")), *_label(one)), [])
            found[str(metadata.get("uid"))] = [*owned(one, candidates)]
        return found

    def events(self, facts: Facts) -> list[Body]:
        """Return the events of a job, its launcher's batch Job and pods, and of some workers.

        Each object is asked for: a namespace may have very many events. Pods of these names that are gone count too.
        """
        metadata = part(facts.resource, "metadata")
        created = str(metadata.get("creationTimestamp"))
        uids = {metadata.get("uid"), *(pod.uid for pod in facts.by_name.values())}
        found = []
        for name in event_names(facts):
            asked = {"fieldSelector": f"involvedObject.name={name}"}
            for event in itertools.islice(self._connection.items(EVENT.path(facts.namespace), **asked), _EVENTS_MAX):
                about = part(event, "involvedObject")
                is_pods = name != facts.name and about.get("kind") in {"Pod", "Job"}
                if about.get("uid") in uids or (is_pods and event_time(event) >= created):
                    found.append(event)
        return sorted(found, key=event_time)


def event_names(facts: Facts) -> list[str]:
    """Return the names of the objects whose events matter: of workers a few that are not ready, or have been replaced.

    A worker that is younger than the launcher's pod may be there in place of one that was evicted meanwhile.
    """
    unready = sorted((name for name, _, _ in facts.waiting()), key=lambda name: name not in facts.by_name)
    since = (facts.launcher and facts.launcher.created_at) or facts.now
    replaced = [pod.name for pod in facts.workers.values() if (pod.created_at or 0.0) > since]
    launchers = [f"{facts.name}-{LAUNCHER}", *(pod.name for pod in facts.launchers[-_ASKED_MAX:])]
    return [*dict.fromkeys((facts.name, *launchers, *[*unready, *replaced][:_ASKED_MAX]))]


def _remember(known: dict[_K, _V], key: _K, value: _V) -> None:
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[key] = value


def _label(resource: Object) -> tuple[str, str]:
    """Return the label that a job's pods have, and its value."""
    metadata = part(resource, "metadata")
    by_uid = is_t9k(resource) or is_virtual(resource)
    return (_JOB_UID, str(metadata.get("uid"))) if by_uid else (_JOB_NAME, str(metadata.get("name")))


def owned(resource: Object, pods: Iterable[Body]) -> Iterator[Body]:
    """Return those pods whose controller is the job, or the batch Job of its launcher."""
    metadata = part(resource, "metadata")
    launcher, created = f"{metadata.get('name')}-{LAUNCHER}", str(metadata.get("creationTimestamp") or "")
    for pod in pods:
        found = part(pod, "metadata")
        if found.get("namespace") != metadata.get("namespace"):
            continue
        owner: Body = next((one for one in mappings(found.get("ownerReferences")) if one.get("controller")), {})
        is_launcher = (owner.get("kind"), owner.get("name")) == ("Job", launcher)
        if owner.get("uid") == metadata.get("uid") or (
            is_launcher and str(found.get("creationTimestamp") or created) >= created
        ):
            yield pod


def event_time(event: Object) -> str:
    """When an event was seen last, as Kubernetes writes times."""
    series = part(event, "series").get("lastObservedTime")
    given = (series, event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return next((one for one in given if isinstance(one, str) and one), "")
