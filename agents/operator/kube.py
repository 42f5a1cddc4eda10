"""The kinds of objects that the operator creates or watches, their API paths, and the errors of API requests."""

from __future__ import annotations

from dataclasses import dataclass

FIELD_MANAGER = "mpi-agents"  # of all that we write


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


_MESSAGE_MAX = 8192  # characters; of a template with 20,000 faults the API server names each, with what is there
_TOO_LARGE = ("request is too large", "larger than max")  # etcd's, and its client's, for an object over 1.5 or 2 MiB
_LONGEST_RETRY_AFTER_S = 60.0  # a proxy under maintenance names hours: nothing would be watched meanwhile


class ApiError(Exception):
    """A request that failed. `code` is HTTP's, 0 where there was no answer; the message is the API server's."""

    def __init__(self, message: str, code: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason  # of the Status object, as AlreadyExists
        self.retry_after_s = retry_after_s


class NotFoundError(ApiError):
    """There is no such object, namespace or kind."""


class AlreadyExistsError(ApiError):
    """Another object has the name."""


class ConflictError(ApiError):
    """The object is no longer the one that the request was made for."""


class GoneError(ApiError):
    """The resourceVersion or the page token is too old: list again."""


class RejectedError(ApiError):
    """The API server rejects it: forbidden, invalid, over a quota. A retry may not help."""


class TooManyError(ApiError):
    """The API server asks to come back later (`retry_after_s`)."""


class UnavailableError(ApiError):
    """No answer, or none that says anything about the request: it may or may not have been carried out."""


def from_status(code: int, status: object, retry_after: str | None = None) -> ApiError:
    """Return the error that an answer is; `status` is its body (a Status object as a rule)."""
    fields = status if isinstance(status, dict) else {}
    message, reason = str(fields.get("message") or f"HTTP {code}"), str(fields.get("reason") or "")
    message = message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"
    is_given = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
    retry_after_s = min(float(retry_after or 0), _LONGEST_RETRY_AFTER_S) if is_given else None
    if code >= 500 and any(text in message for text in _TOO_LARGE):
        return RejectedError(message, code, reason)
    return _type(code, reason, retry_after_s)(message, code, reason, retry_after_s)


def _type(code: int, reason: str, retry_after_s: float | None) -> type[ApiError]:
    if code == 409:
        return AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    if code == 429 or (code >= 500 and retry_after_s is not None):
        return TooManyError
    if code >= 500 or code in {401, 408}:  # 401: a token that is being renewed
        return UnavailableError
    return {404: NotFoundError, 410: GoneError}.get(code, RejectedError)
