"""Other operators for MPIJobs in the cluster: two that act on one job would undo each other's work.

They are detected by their leases and Deployments, as far as RBAC allows, in namespaces that an administrator names:
anyone may create such an object in a namespace of their own. While another one runs, only jobs assigned to this one are
claimed (`claims`). Of two operators of ours, the one with the later lease yields.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

from agents.job.json_object import Body, part
from agents.job.model import PREFIX, T9K_GROUP, VIRTUAL_GROUP
from agents.job.status import has_begun, raw_conditions
from agents.kube.api import Api
from agents.kube.detection import DEPLOYMENTS, LEASES, find_operators, place
from agents.kube.errors import ApiError, RejectedError
from agents.kube.kinds import DEPLOYMENT, LEASE, Kind
from agents.operator.caches import group_of
from agents.operator.planning.status import is_written

_LOG = logging.getLogger(__name__)
_CHECK_S, CHECK_BUSY_S, _FIRST_CHECK_S = 60.0, 10.0, 2.0  # more often while another operator runs: jobs wait
NAMESPACES = ("mpi-operator", "kubeflow", "kubeflow-system", "mpi-agents")  # of kubeflow's manifests, and of our own
_OURS_ALONE = (T9K_GROUP, VIRTUAL_GROUP)  # groups that kubeflow's operators don't know
CLAIM_LABEL = f"{PREFIX}adopt"  # a job's label
MANAGED_BY = f"{PREFIX}operator"  # a job's runPolicy.managedBy, which kubeflow's operator (v0.8) leaves alone


class Claim(StrEnum):
    """Which jobs are claimed: all; only assigned ones; or all unless another operator is running."""

    ALL = "all"
    ASSIGNED = "given"
    AUTO = "auto"


def claims(claim: Claim, is_alone: Callable[[str], bool], resource: Body) -> bool:
    """Whether to manage this MPIJob. A job that this operator has started stays with it.

    `is_alone(group)`: whether no other operator manages the MPIJobs of an API group.
    """
    if claim is Claim.ALL or (claim is Claim.AUTO and is_alone(group_of(resource))):
        return True
    return is_assigned(resource) or has_our_status(resource)


def is_assigned(resource: Body) -> bool:
    """Whether the job is assigned to this operator: by the label mpi-agents/adopt or runPolicy.managedBy."""
    is_labelled = part(resource, "metadata", "labels").get(CLAIM_LABEL) == "true"
    return is_labelled or part(resource, "spec", "runPolicy").get("managedBy") == MANAGED_BY


def has_our_status(resource: Body) -> bool:
    """Whether we have written the job's status, and more in it than that the job is left to another operator."""
    return is_written(resource) and (has_begun(resource) or not raw_conditions(resource))


class OtherOperators:
    """Checks for other operators, at the start and then every minute or more often; calls `on_change`."""

    def __init__(
        self,
        api: Api,
        lease_namespace: str,
        lease_name: str,
        namespaces: Collection[str] = NAMESPACES,
        on_change: Callable[[], None] = lambda: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._api, self._on_change, self._stop = api, on_change, stop or threading.Event()
        self._own = (lease_namespace, lease_name)
        self._namespaces = {*namespaces, lease_namespace}
        self._seen: frozenset[str] | None = None
        self._listed: set[Kind] = set()
        self._refused: set[Kind] = set()  # of those never listed: what RBAC doesn't allow us to list

    def seen(self) -> frozenset[str]:
        """Return the objects that other operators were detected by: `Lease mpi-operator/mpi-operator`."""
        return self._seen or frozenset()

    def others(self, group: str) -> frozenset[str]:
        """The other operators for a group's MPIJobs.

        Kubeflow's leave those of other groups alone; a second one of ours has a lease of the same name.
        """
        seen = self.seen()
        if group not in _OURS_ALONE:
            return seen
        return frozenset(one for one in seen if one.endswith(f"/{self._own[1]}"))

    def is_alone(self, group: str) -> bool:
        """Whether there is no other operator for a group's MPIJobs as far as we may look; False until that is known."""
        return self._seen is not None and not self.others(group)

    def start(self) -> None:
        """Check in a thread: the first check may take long."""
        threading.Thread(target=self._run, name="other-operators", daemon=True).start()

    def look(self) -> None:
        """Check once and log changes; while the API server can't answer, the last result stays valid."""
        try:
            leases = self._list(LEASE, {*LEASES, self._own[1]})
            deployments = self._list(DEPLOYMENT, DEPLOYMENTS)
        except ApiError as error:
            _LOG.warning("can't check for other operators: %s", error)
            return
        seen, before = find_operators(leases, deployments, self._own, time.time()), self.seen()
        for name in sorted(seen - before):
            _LOG.warning(
                "another operator for MPIJobs is running: %s. New jobs are left to it, except those with the "
                "label %s=true or runPolicy.managedBy %s (docs/moving.md)",
                *(name, CLAIM_LABEL, MANAGED_BY),
            )
        for name in sorted(before - seen):
            _LOG.info("another operator for MPIJobs no longer runs: %s", name)
        if seen != self._seen:
            self._seen = seen
            self._on_change()

    def _run(self) -> None:
        self.look()
        while not self._stop.wait(self.pause_s()):
            self.look()

    def pause_s(self) -> float:
        """How long until the next look: shorter beside another operator, as jobs may wait for its end."""
        if self._seen is None:
            return _FIRST_CHECK_S
        return CHECK_BUSY_S if self._seen else _CHECK_S

    def _list(self, kind: Kind, names: Iterable[str]) -> list[Body]:
        """All of these names in namespaces that count, none if RBAC doesn't allow that. Raises ApiError."""
        try:
            found = [
                one
                for name in names  # any namespace may have one of the name
                for one in self._api.items(kind.path(), fieldSelector=f"metadata.name={name}")
                if place(one)[0] in self._namespaces
            ]
        except RejectedError:
            if kind in self._listed:  # an API server refuses what it is asked before it has read the roles
                raise
            if kind not in self._refused:
                self._refused.add(kind)
                _LOG.info(
                    "can't detect other operators by their %s: the operator's role doesn't allow listing them",
                    kind.plural,
                )
            return []
        self._listed.add(kind)
        return found
