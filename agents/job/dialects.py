"""A job's dialect, and the defaults and rules of kubeflow's two dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.job.json_object import mapping
from agents.job.model import GROUP, KUBEFLOW, PREFIX, T9K_GROUP, CleanPodPolicy, Dialect, RestartPolicy, Transport
from agents.job.settings import annotation

if TYPE_CHECKING:
    from agents.job.json_object import Object


@dataclass(frozen=True, slots=True)
class Rules:
    """A dialect's defaults, and what its operators refuse.

    v1: mpi-operator v0.3.0 `v1/default.go`, training-operator v1.9.3 `mpi_defaults.go` and `mpi_validation.go`.
    v2beta1: mpi-operator v0.8.2 `v2beta1/default.go` and `validation.go`.
    """

    transport: Transport
    launcher_restart: RestartPolicy
    restart_policies: tuple[RestartPolicy, ...]
    workers_are_hosts: bool  # `<job>-worker-N` is a host name
    least_workers: int
    other_clean_pods: CleanPodPolicy | None  # what an unknown cleanPodPolicy means, None if it is refused


MAX_WORKERS = 20_000  # with more, the hostfile is larger than a ConfigMap may be, even if names are short

RULES = {
    Dialect.V1: Rules(
        transport=Transport.EXEC,
        launcher_restart=RestartPolicy.NEVER,
        restart_policies=tuple(RestartPolicy),
        workers_are_hosts=False,
        least_workers=0,
        other_clean_pods=CleanPodPolicy.NONE,
    ),
    Dialect.V2BETA1: Rules(
        transport=Transport.SSH,
        launcher_restart=RestartPolicy.ON_FAILURE,
        restart_policies=(RestartPolicy.NEVER, RestartPolicy.ON_FAILURE),
        workers_are_hosts=True,
        least_workers=1,
        other_clean_pods=None,
    ),
}

OUR_CONTROLLERS = (  # those whose place we take, and ourselves: a name that they leave alone
    "kubeflow.org/mpi-operator",
    "kubeflow.org/training-operator",
    f"{PREFIX}operator",
)

_NAMES = {str(dialect): dialect for dialect in KUBEFLOW}
_API_VERSIONS = {f"{GROUP}/{dialect}": dialect for dialect in KUBEFLOW}


def dialect_of(resource: Object, served: str) -> Dialect:
    """Return a job's dialect; a wrong value anywhere counts as absent.

    Of kubeflow's: the annotation, `spec.dialect` (our CRD's default is each version's own), the version by which the
    job was written first (managedFields: kubeflow's own CRD drops `spec.dialect`), the version it is read by.
    """
    if is_t9k(resource, served):
        return Dialect.T9K
    metadata, spec = mapping(resource.get("metadata")), mapping(resource.get("spec"))
    entries = metadata.get("managedFields")
    written = [mapping(entry) for entry in entries] if isinstance(entries, list) else []
    versions = [entry.get("apiVersion") for entry in written if not entry.get("subresource")]
    chosen = (mapping(metadata.get("annotations")).get(annotation("dialect")), spec.get("dialect"))
    found = [_NAMES.get(name) for name in chosen if isinstance(name, str)]
    found += [_API_VERSIONS.get(one) for one in (*versions, resource.get("apiVersion")) if isinstance(one, str)]
    return next((dialect for dialect in found if dialect), _NAMES.get(served, Dialect.V2BETA1))


def is_t9k(resource: Object, served: str = "") -> bool:
    """Return whether this is T9k's MPIJob. `served`: by what it was got, which tells where the object doesn't."""
    version = resource.get("apiVersion")
    if not isinstance(version, str) or not version:
        return served == Dialect.T9K
    return version.partition("/")[0] == T9K_GROUP


def is_managed_elsewhere(resource: Object) -> bool:
    """Return whether `runPolicy.managedBy` names another controller (Kueue's, on a cluster that hands its jobs on).

    Such a job is ignored even if it is invalid: kubeflow checks this before it validates.
    """
    policy = mapping(mapping(resource.get("spec")).get("runPolicy"))
    name = policy.get("managedBy")
    return isinstance(name, str) and name not in ("", *OUR_CONTROLLERS)
