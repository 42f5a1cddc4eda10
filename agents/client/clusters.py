"""VirtualClusters as `kubectl mpi cluster` shows them. They are read as jobs are; a job's workers are their nodes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agents.client import prun
from agents.client.connection import Connection
from agents.client.diagnosis import diagnose
from agents.client.each_pod import each_pod
from agents.client.errors import NotFoundError, RefusedError
from agents.client.facts import Facts, PodFacts
from agents.client.model import PodSummary
from agents.client.objects import Objects, path_of
from agents.client.reader import Reader
from agents.client.summaries import status_of
from agents.common.text import printable
from agents.job.conditions import Type
from agents.job.json_object import Body, part
from agents.job.status import raw_conditions
from agents.job.virtual_cluster_status import READY
from agents.kube.kinds import VIRTUAL_CLUSTER

_END_S = 30.0
_UNKNOWN = "this cluster knows no VirtualClusters: install mpi-agents (docs/install.md), or choose another --context"
_NOTES = (Type.DVM_OUTDATED, Type.WORKERS_OUTDATED, Type.SETTINGS_IGNORED)  # what may hold of one that is ready, too


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """A virtual cluster in a line."""

    namespace: str
    name: str
    ready: bool
    """Whether nodes and login pod are ready."""
    reason: str
    """One word for why it is not ready; "" if it is."""
    message: str
    """The same as a sentence, and what else its operator has to say."""
    nodes: str
    """How many nodes are ready: `3/5`."""
    slots: int
    """How many ranks its nodes take."""
    has_dvm: bool
    """Whether the login pod runs a DVM."""
    dvm_nodes: int | None
    """With how many nodes the DVM was started; None without one."""
    login: str
    """The login pod's name; "" while there is none."""
    transport: str
    """`exec` or `ssh`; "" if the resource is invalid."""
    created: float | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A virtual cluster on one screen."""

    summary: ClusterSummary
    login: tuple[PodSummary, ...]
    nodes: tuple[PodSummary, ...]
    """All that it wants: one that is not there has no node and no phase."""


class Clusters:
    """The virtual clusters of one namespace. Methods raise ClientError."""

    def __init__(self, client: Reader, connection: Connection, objects: Objects) -> None:
        self._client, self._connection, self._objects = client, connection, objects

    def list(self, *, all_namespaces: bool = False) -> tuple[ClusterSummary, ...]:
        """Return all virtual clusters, by namespace and name. Raises NotFoundError if the API server knows none."""
        path, now = VIRTUAL_CLUSTER.path(None if all_namespaces else self._client.namespace), time.time()
        try:
            found = [summary_of(Facts(one, (), now)) for one in self._connection.items(path)]
        except NotFoundError:
            raise NotFoundError(_UNKNOWN) from None
        return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))

    def get(self, name: str) -> ClusterStatus:
        """Return a virtual cluster with its pods."""
        facts = self._facts(name)
        pods = status_of(facts)
        return ClusterStatus(summary_of(facts), pods.launchers[-1:], pods.workers)

    def login(self, name: str, *, needs_dvm: bool = False) -> PodFacts:
        """Return the login pod. Raises RefusedError, with the reason, if it is not ready, or runs no DVM."""
        facts = self._facts(name)
        summary = summary_of(facts)
        if needs_dvm and not summary.has_dvm:
            raise RefusedError(
                f"{name} has no DVM: set spec.dvm.enabled, or start a DVM by hand (`kubectl mpi cluster login {name}`)"
            )
        if facts.launcher is None or facts.launcher.why is not None:
            raise RefusedError(f"{name}'s login pod is not ready: {summary.message}")
        return facts.launcher

    def end(self, name: str, mark: str) -> tuple[str, ...]:
        """End a program that prun has started with this mark; return a line for each node that can't be asked."""
        nodes = [*self._facts(name).workers.values()]
        _, notes = each_pod(nodes, lambda node: self._client.execute(node, prun.end(mark), timeout_s=_END_S))
        return tuple(notes)

    def delete(self, name: str) -> None:
        """Delete a virtual cluster with its pods. Does not wait for their end."""
        resource = self._resource(name)
        self._connection.delete(path_of(resource), str(part(resource, "metadata").get("uid")))

    def _facts(self, name: str) -> Facts:
        resource = self._resource(name)
        return Facts(resource, self._objects.pods(resource), time.time())

    def _resource(self, name: str) -> Body:
        kind = VIRTUAL_CLUSTER
        try:
            found = self._connection.get(kind.path(self._client.namespace, name))
        except NotFoundError:
            if not self._objects.is_served(kind):
                raise NotFoundError(_UNKNOWN) from None
            where = f'no VirtualCluster "{name}" in namespace "{self._client.namespace}"'
            raise NotFoundError(f"{where}: `kubectl mpi cluster list -A` shows all") from None
        return {"apiVersion": kind.api_version, "kind": kind.name, **found}


def summary_of(facts: Facts) -> ClusterSummary:
    """Return a virtual cluster in a line. Pure."""
    status = part(facts.resource, "status")
    ready = next((one for one in raw_conditions(facts.resource) if one.get("type") == READY), None)
    notes = [one for one in map(facts.condition, _NOTES) if one is not None]
    is_ready = ready is not None and ready.get("status") == "True"
    first = str(ready.get("message")) if ready is not None else diagnose(facts).what
    nodes, dvm_nodes, login = status.get("readyNodes"), status.get("dvmNodes"), status.get("loginPod")
    return ClusterSummary(
        namespace=facts.namespace,
        name=facts.name,
        ready=is_ready,
        reason="" if is_ready else printable(str((ready or {}).get("reason") or "Pending")),
        message=printable(". ".join([first, *(str(one.get("message")) for one in notes)])),
        nodes=printable(nodes) if isinstance(nodes, str) else f"0/{facts.wanted}",
        slots=facts.slots,
        has_dvm=facts.job is not None and facts.job.has_dvm,
        dvm_nodes=dvm_nodes if isinstance(dvm_nodes, int) else None,
        login=printable(login) if isinstance(login, str) else "",
        transport="" if facts.job is None else str(facts.job.transport),
        created=facts.created_at,
    )
