"""Other operators for MPIJobs on the cluster: two that act on one job would undo each other's work.

They are seen by their leases and Deployments, where our rights allow. Beside one, no job is taken but those that were
given to us (`Adoption`). A second operator of our own yields to the one whose lease is older.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from agents.job.model import PREFIX, T9K_GROUP
from agents.operator.api import FIELD_MANAGER
from agents.operator.caches import group_of
from agents.operator.errors import ApiError, RefusedError
from agents.operator.kinds import LEASE, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agents.operator.api import Api

Body = dict[str, Any]

_LOG = logging.getLogger(__name__)
_LOOK_S, _FIRST_LOOK_S = 60.0, 2.0
_TRAINING_LEASE = "1ca428e5.training-operator.kubeflow.org"
_LEASES = ("mpi-operator", _TRAINING_LEASE)  # kubeflow's two
_DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments")
_DEPLOYMENTS = ("mpi-operator", "training-operator")  # also those that elect by Endpoints, or not at all
_CLOCKS_S = 30  # how far the clocks of two nodes may be apart
ADOPT = f"{PREFIX}adopt"  # a job's label
MANAGED_BY = f"{PREFIX}operator"  # a job's runPolicy.managedBy, which kubeflow's operator (v0.8) leaves alone


class Adopt(StrEnum):
    """Which jobs are taken: all; those that are given to us; or all, unless another operator is seen."""

    ALL = "all"
    GIVEN = "given"
    AUTO = "auto"


class Adoption:
    """Which jobs are ours to look after."""

    def __init__(self, adopt: Adopt, is_alone: Callable[[str], bool]) -> None:
        """`is_alone(group)`: whether no other operator looks after the MPIJobs of an API group."""
        self._adopt, self._is_alone = adopt, is_alone

    def takes(self, resource: Body) -> bool:
        """Whether to plan this MPIJob; one that we have begun is kept, whoever comes."""
        if self._adopt is Adopt.ALL or (self._adopt is Adopt.AUTO and self._is_alone(group_of(resource))):
            return True
        return is_given(resource) or is_begun(resource)


def is_given(resource: Body) -> bool:
    """Whether the job's author has named us: label mpi-agents/adopt, or runPolicy.managedBy."""
    labels = resource["metadata"].get("labels") or {}
    spec = resource.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    managed_by = policy.get("managedBy") if isinstance(policy, dict) else None
    return labels.get(ADOPT) == "true" or managed_by == MANAGED_BY


def is_begun(resource: Body) -> bool:
    """Whether we have written the job's status."""
    entries = resource["metadata"].get("managedFields") or ()
    return any(entry.get("manager") == FIELD_MANAGER and entry.get("subresource") == "status" for entry in entries)


class Neighbours:
    """Looks for other operators, at once and then every minute. `on_change` is told when what is seen has changed."""

    def __init__(self, api: Api, lease_namespace: str, lease_name: str) -> None:
        self._api = api
        self._own = (lease_namespace, lease_name)
        self._seen: frozenset[str] | None = None
        self._blind: set[Kind] = set()  # what we may not list
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbours", daemon=True)
        self.on_change: Callable[[], None] = lambda: None

    def seen(self) -> frozenset[str]:
        """The other operators, by what they were seen by: `Lease mpi-operator/mpi-operator`."""
        return self._seen or frozenset()

    def is_alone(self, group: str) -> bool:
        """Whether there is no other operator for a group's MPIJobs as far as we may look; False until that is known.

        Kubeflow's leave T9k's alone; a second one of ours has a lease of the same name.
        """
        if self._seen is None:
            return False
        seen = self._seen
        return not (any(name.endswith(f"/{self._own[1]}") for name in seen) if group == T9K_GROUP else seen)

    def start(self) -> None:
        """Look once, and then from time to time."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def look(self) -> None:
        """Look once, and say what has changed; while the API server can't tell, what was seen last holds."""
        try:
            leases = [lease for name in {*_LEASES, self._own[1]} for lease in self._list(LEASE, name)]
            deployments = [each for name in _DEPLOYMENTS for each in self._list(_DEPLOYMENT, name)]
        except ApiError as error:
            _LOG.warning("other operators can't be looked for: %s", error)
            return
        seen, before = found(leases, deployments, self._own, time.time()), self.seen()
        for name in sorted(seen - before):
            _LOG.warning(
                "another operator for MPIJobs is here: %s. New jobs are left to it but those with the label %s=true or "
                "runPolicy.managedBy %s (docs/moving.md)",
                *(name, ADOPT, MANAGED_BY),
            )
        for name in sorted(before - seen):
            _LOG.info("another operator for MPIJobs is gone: %s", name)
        if seen != self._seen:
            self._seen = seen
            self.on_change()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_S if self._seen is not None else _FIRST_LOOK_S):
            self.look()

    def _list(self, kind: Kind, name: str) -> list[Body]:
        if kind in self._blind:
            return []
        try:
            return list(self._api.list(kind.path(), fieldSelector=f"metadata.name={name}").get("items") or [])
        except RefusedError:
            self._blind.add(kind)
            _LOG.info("other operators can't be seen by their %s: the operator's role may not list them", kind.plural)
            return []


def found(leases: Iterable[Body], deployments: Iterable[Body], own: tuple[str, str], now: float) -> frozenset[str]:
    """Return the other operators that are at work; `own`: our lease's namespace and name. Pure."""
    leases, deployments = list(leases), list(deployments)
    without = {_place(each)[0] for each in deployments if not _has_mpijobs(each)}
    ours = next((_born(lease) for lease in leases if _place(lease) == own), "")
    seen = set()
    for lease in leases:
        namespace, name = _place(lease)
        if name == _TRAINING_LEASE and namespace in without:
            continue
        is_later = name == own[1] and (not ours or (_born(lease), namespace) > (ours, own[0]))
        if (namespace, name) != own and is_held(lease, now) and not is_later:
            seen.add(f"Lease {namespace}/{name}")
    for each in deployments:
        is_up = (each.get("spec") or {}).get("replicas", 1) and (each.get("status") or {}).get("readyReplicas")
        if is_up and _has_mpijobs(each) and not _runs_ours(each):
            seen.add("Deployment {}/{}".format(*_place(each)))
    return frozenset(seen)


def is_held(lease: Body, now: float) -> bool:
    """Whether a lease has a holder who has renewed it in time. Pure."""
    spec: Mapping[str, Any] = lease.get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    try:
        renewed = datetime.fromisoformat(str(spec["renewTime"])).timestamp()
    except ValueError:
        return False
    return now - renewed < float(spec.get("leaseDurationSeconds") or 15) + _CLOCKS_S


def _runs_ours(deployment: Body) -> bool:
    """Whether it is one of our chart's, whatever its release calls it: those are seen by their leases."""
    return any(word.startswith("--lease-name=") for word in _words(deployment))


def _has_mpijobs(deployment: Body) -> bool:
    """Whether it looks after MPIJobs: a training-operator may be told which kinds are its own."""
    words, kinds = _words(deployment), set()
    for word, after in pairwise([*words, ""]):
        name, is_one_word, kind = word.partition("=")
        if name in ("--enable-scheme", "-enable-scheme"):
            kinds.add((kind if is_one_word else after).lower())
    return not kinds or "mpijob" in kinds


def _words(deployment: Body) -> list[str]:
    template: Body = (deployment.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    return [str(word) for one in containers for key in ("command", "args") for word in one.get(key) or ()]


def _place(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _born(body: Body) -> str:
    return str(body["metadata"].get("creationTimestamp", ""))
