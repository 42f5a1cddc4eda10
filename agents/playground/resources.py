"""The kinds that the stand-in serves, and the paths it serves them at. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATH = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?/?$"
)


@dataclass(frozen=True)
class Resource:
    """A kind. `versions` are those it is served by; the first is the one it is stored as."""

    plural: str
    kind: str
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    parts: tuple[str, ...] = ()  # what is served below an object; with `status`, other writes leave the status alone
    scaled: tuple[str, ...] = ()  # where the subresource `scale` finds `replicas`
    counts_generations: bool = False  # metadata.generation tells changes of the spec

    @property
    def key(self) -> str:
        """The kind's name in the store and in messages: pods, mpijobs.kubeflow.org."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        """What objects say that they are."""
        return f"{self.group}/{version}" if self.group else version

    def path(self, version: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL's path of all, of a namespace's, of one, or of a part of one."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        where = f"namespaces/{namespace}" if namespace else ""
        return "/".join(part for part in (root, where, self.plural, name, subresource) if part)


@dataclass(frozen=True)
class Target:
    """What a request's path names. `namespace` and `name` are empty where it names none."""

    resource: Resource
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def api_version(self) -> str:
        """The version that the client speaks."""
        return self.resource.api_version(self.version)


_STATUS = ("status",)
PODS = Resource("pods", "Pod", short_names=("po",), parts=("exec", "log", "status"))
CONFIG_MAPS = Resource("configmaps", "ConfigMap", short_names=("cm",))
SECRETS = Resource("secrets", "Secret")
SERVICES = Resource("services", "Service", short_names=("svc",), parts=_STATUS)
SERVICE_ACCOUNTS = Resource("serviceaccounts", "ServiceAccount", short_names=("sa",))
EVENTS = Resource("events", "Event", short_names=("ev",))
NAMESPACES = Resource("namespaces", "Namespace", short_names=("ns",), namespaced=False)
ROLES = Resource("roles", "Role", "rbac.authorization.k8s.io")
ROLE_BINDINGS = Resource("rolebindings", "RoleBinding", "rbac.authorization.k8s.io")
LEASES = Resource("leases", "Lease", "coordination.k8s.io")
BATCH_JOBS = Resource("jobs", "Job", "batch", parts=_STATUS, counts_generations=True)
DEPLOYMENTS = Resource("deployments", "Deployment", "apps", short_names=("deploy",), parts=_STATUS)  # none is acted on
MPI_JOBS = Resource(
    "mpijobs",
    "MPIJob",
    "kubeflow.org",
    ("v2beta1", "v1"),
    ("mj", "mpij"),
    parts=("scale", "status"),
    scaled=("spec", "mpiReplicaSpecs", "Worker"),
    counts_generations=True,
)
T9K_MPI_JOBS = Resource(
    "mpijobs", "MPIJob", "batch.tensorstack.dev", ("v1beta1",), parts=_STATUS, counts_generations=True
)
VIRTUAL_CLUSTERS = Resource(
    "virtualclusters",
    "VirtualCluster",
    "mpi-agents.io",
    ("v1alpha1",),
    ("mvc",),
    parts=("scale", "status"),
    scaled=("spec", "nodes"),
    counts_generations=True,
)
JOBS = (MPI_JOBS, T9K_MPI_JOBS, VIRTUAL_CLUSTERS)  # what the operator makes pods for
RESOURCES = (
    PODS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    EVENTS,
    NAMESPACES,
    ROLES,
    ROLE_BINDINGS,
    LEASES,
    BATCH_JOBS,
    DEPLOYMENTS,
    *JOBS,
)


def target(path: str, resources: tuple[Resource, ...] = RESOURCES) -> Target | None:
    """What a path names; None if nothing that is served."""
    found = _PATH.match(path)
    if found is None:
        return None
    group, version = found["group"] or "", found["core"] or found["version"]
    for resource in resources:
        if (resource.plural, resource.group) == (found["plural"], group) and version in resource.versions:
            subresource = found["subresource"] or ""
            if subresource not in {"", *resource.parts} or (subresource and not found["name"]):
                return None
            namespace = found["namespace"] or ""
            return Target(resource, version, namespace, found["name"] or "", subresource)
    return None


def of_kind(api_version: str, kind: str) -> Resource | None:
    """The resource of an object's apiVersion and kind."""
    for resource in RESOURCES:
        if resource.kind == kind and api_version in map(resource.api_version, resource.versions):
            return resource
    return None
