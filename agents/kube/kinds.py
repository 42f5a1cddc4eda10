"""The kinds of objects that client and operator read or write, and their API paths. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced kind."""

    name: str  # Pod
    api_version: str  # v1, batch/v1
    plural: str  # pods
    is_secret: bool = False  # nothing but the metadata of such objects is ever asked for

    @property
    def group(self) -> str:
        """The API group, "" for the core's."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """The plural with its group, as rules and people name it: `mpijobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL's path of all, of a namespace's, or of one."""
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        return "/".join(part for part in (f"{root}{where}/{self.plural}", name, subresource) if part)


POD = Kind("Pod", "v1", "pods")
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps")
SERVICE = Kind("Service", "v1", "services")
SECRET = Kind("Secret", "v1", "secrets", is_secret=True)
SERVICE_ACCOUNT = Kind("ServiceAccount", "v1", "serviceaccounts")
EVENT = Kind("Event", "v1", "events")
ROLE = Kind("Role", "rbac.authorization.k8s.io/v1", "roles")
ROLE_BINDING = Kind("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings")
BATCH_JOB = Kind("Job", "batch/v1", "jobs")
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments")
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases")
VOLCANO_POD_GROUP = Kind("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups")
SCHEDULER_PLUGINS_POD_GROUP = Kind("PodGroup", "scheduling.x-k8s.io/v1alpha1", "podgroups")
MPI_JOB_V1 = Kind("MPIJob", "kubeflow.org/v1", "mpijobs")
T9K_POD_GROUP = Kind("PodGroup", "scheduler.tensorstack.dev/v1beta1", "podgroups")
MPI_JOB_T9K = Kind("MPIJob", "batch.tensorstack.dev/v1beta1", "mpijobs")
VIRTUAL_CLUSTER = Kind("VirtualCluster", "mpi-agents.io/v1alpha1", "virtualclusters")
MPI_JOB_V2BETA1 = Kind("MPIJob", "kubeflow.org/v2beta1", "mpijobs")
JOBS = frozenset({MPI_JOB_V1.name, VIRTUAL_CLUSTER.name})  # names of the kinds that pods are created for

_POD_GROUPS = {"volcano": VOLCANO_POD_GROUP, "t9k": T9K_POD_GROUP}


def pod_group_kind(gang_scheduler: str) -> Kind:
    """Return the kind of PodGroup that a gang scheduler knows: any other name is one with coscheduling's."""
    return _POD_GROUPS.get(gang_scheduler, SCHEDULER_PLUGINS_POD_GROUP)
