"""The job model that every dialect is read into.

What a dialect means by a default is decided while reading; nothing behind this model asks for a default again. Where
dialects still differ, code checks `Job.dialect`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.job.json_object import Object

GROUP = "kubeflow.org"
T9K_GROUP = "batch.tensorstack.dev"
VIRTUAL_GROUP = "mpi-agents.io"
MPI_JOB, VIRTUAL_CLUSTER = "MPIJob", "VirtualCluster"  # the kinds
PREFIX = "mpi-agents/"  # of the annotations and labels that are ours
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"  # label of a job that Kueue admits
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # annotation: a copy of the whole object
LAUNCHER, WORKER = "launcher", "worker"  # the roles
MAX_WORKERS = 20_000  # with more, the hostfile is larger than a ConfigMap may be, even if names are short

_HUMP = re.compile("(?=[A-Z])")


def annotation(key: str) -> str:
    """Return the annotation of a field: `mpi-agents/main-container` for `mainContainer`."""
    return PREFIX + _HUMP.sub("-", key).lower()


class Dialect(StrEnum):
    """Whose meaning a job has: for kubeflow's versions the value of `spec.dialect`."""

    V1 = "v1"
    V2BETA1 = "v2beta1"
    T9K = "t9k"  # batch.tensorstack.dev/v1beta1
    VIRTUAL = "virtual"  # mpi-agents.io/v1alpha1: the workers are its nodes, the launcher is its login pod

    @property
    def has_launcher_pod(self) -> bool:
        """Whether the launcher is a Pod; else it is a batch Job, which counts the tries."""
        return self is not Dialect.V2BETA1

    @property
    def never_ends(self) -> bool:
        """Whether a launcher that has ended is replaced, however it ended: it waits for its users."""
        return self is Dialect.VIRTUAL

    @property
    def kind(self) -> str:
        """The kind of the resource."""
        return VIRTUAL_CLUSTER if self is Dialect.VIRTUAL else MPI_JOB

    @property
    def launcher_suffix(self) -> str:
        """What is behind the resource's name in the launcher's."""
        return "login" if self is Dialect.VIRTUAL else LAUNCHER

    @property
    def worker_suffix(self) -> str:
        """What is behind the resource's name in a worker's, before its index."""
        return "node" if self is Dialect.VIRTUAL else WORKER

    @property
    def has_short_hosts(self) -> bool:
        """Whether the hostfile names workers by their pods' names alone."""
        return self is not Dialect.V2BETA1


KUBEFLOW = (Dialect.V1, Dialect.V2BETA1)  # the versions of its group, by their names


class Transport(StrEnum):
    """How the launcher's daemons get into the workers."""

    EXEC = "exec"
    SSH = "ssh"


class KeyType(StrEnum):
    """What an ssh job's keys are made by."""

    ED25519 = "ed25519"
    ECDSA = "ecdsa"  # for images whose ssh has no Ed25519


class Passwd(StrEnum):
    """Where an ssh job's containers have /etc/passwd from. AUTO: GENERATED for a uid that no image has by itself."""

    AUTO = ""
    IMAGE = "image"
    GENERATED = "generated"


class Implementation(StrEnum):
    """Whose mpirun the launcher calls: what the hostfile looks like, and which variables are set."""

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class RestartPolicy(StrEnum):
    """What happens when a role's containers have exited. ExitCode: 128 and above is retried (kubeflow's rule)."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"


class CleanPodPolicy(StrEnum):
    """Which pods go when the job has ended: none, those still running, or all workers."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class WorkerUpdate(StrEnum):
    """When a changed worker template reaches workers. AUTO: ROLLING until the launcher runs, then ON_DELETE."""

    AUTO = ""
    ROLLING = "RollingUpdate"
    ON_DELETE = "OnDelete"


class Tool(StrEnum):
    """What is put into the launcher's container besides the agent."""

    KUBECTL = "kubectl"  # the real one, in place of our client under that name


class WorkerAgent(StrEnum):
    """Whether workers have the worker agent, by the values of its annotation."""

    NONE = "false"
    ALONE = "true"
    PROCESSES = "processes"  # it sees the processes of all containers: the pod shares its process namespace


class RanksLost(StrEnum):
    """Result of a job whose launcher succeeded although daemons were lost while its last mpirun ran."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class Rbac(StrEnum):
    """Who makes the launcher's Role: the operator, or an administrator by hand."""

    MANAGED = "managed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Role:
    """The launcher or the workers. `template` is the user's pod template as it is: the API server finds its faults."""

    replicas: int
    restart_policy: RestartPolicy
    template: Object


@dataclass(frozen=True, slots=True)
class Override:
    """What debugging or resuming changes in a role's template: its main container's command. None: as it is."""

    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    skips_init_containers: bool = False


@dataclass(frozen=True, slots=True)
class Ssh:
    """How sshd is run in an ssh job's workers, and where its keys are."""

    mount_path: str = "/root/.ssh"
    sshd_path: str = "/usr/sbin/sshd"
    port: int | None = None  # None: the operator chooses
    key_type: KeyType = KeyType.ED25519
    passwd: Passwd = Passwd.AUTO


@dataclass(frozen=True, slots=True)
class Scheduling:
    """`runPolicy.schedulingPolicy`, or T9k's `scheduler.t9kScheduler`: None where it was not given."""

    min_available: int | None = None
    queue: str = ""
    min_resources: Mapping[str, str] | None = None
    priority_class: str = ""
    timeout_s: int | None = None
    priority: int | None = None  # T9k's, 0 to 100


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """When the job ends and what is left of it. None: no such limit."""

    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    ttl_s: int | None = None
    active_deadline_s: int | None = None
    backoff_limit: int | None = None
    is_suspended: bool = False
    managed_by: str = ""
    scheduling: Scheduling = field(default_factory=Scheduling)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a resource, and where: `spec.mpiReplicaSpecs[Worker].replicas`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Job:
    """An MPIJob that can be run."""

    name: str
    namespace: str
    uid: str
    generation: int
    api_version: str  # as it was read, for owner references
    dialect: Dialect
    transport: Transport
    launcher: Role
    worker: Role
    policy: RunPolicy = RunPolicy()
    implementation: Implementation = Implementation.OPEN_MPI
    slots: int = 1
    main_container: str = ""  # the user's container that is executed in, "" for the first
    launcher_is_worker: bool = False  # the launcher is a host in the hostfile: runLauncherAsWorker, or v1's with a GPU
    launcher_waits: bool = False  # launcherCreationPolicy WaitForWorkersReady
    ssh: Ssh = Ssh()
    worker_update: WorkerUpdate = WorkerUpdate.AUTO
    rbac: Rbac = Rbac.MANAGED
    ranks_lost: RanksLost = RanksLost.FAIL
    debug: Mapping[str, Override] | None = None  # by role, LAUNCHER or WORKER; None: not in debug mode
    resume: Mapping[str, Override] = field(default_factory=dict)  # what a resumed job's roles run instead
    worker_agent: WorkerAgent | None = None  # None: the operator's setting
    tags_output: bool = False  # each line of the launcher's output begins with its rank
    tools: tuple[Tool, ...] | None = None  # None: the operator's setting
    has_dvm: bool = False  # virtual clusters: prte runs in the login pod
    has_application: bool = False  # virtual clusters: application containers are in the templates
    launch_command: tuple[str, ...] = ()  # T9k: the mpirun line that was made of the job's fields
    annotations: Mapping[str, str] = field(default_factory=dict)  # the job's own
    is_being_deleted: bool = False
    ignored: tuple[Problem, ...] = ()  # names that nothing reads, and so may be misspelt ones

    @property
    def launcher_name(self) -> str:
        """The launcher's Pod (v1) or batch Job (v2beta1), and its ServiceAccount, Role and RoleBinding."""
        return f"{self.name}-{self.dialect.launcher_suffix}"

    @property
    def config_name(self) -> str:
        """The ConfigMap."""
        return f"{self.name}-config"

    @property
    def secret_name(self) -> str:
        """The Secret with the keys of an ssh job."""
        return f"{self.name}-ssh"

    def worker_name(self, index: int) -> str:
        """The worker Pod's name."""
        return f"{self.name}-{self.dialect.worker_suffix}-{index}"


def is_t9k(resource: Object, served: str = "") -> bool:
    """Return whether this is T9k's MPIJob. `served`: the version that it was read by, if it names none."""
    version = resource.get("apiVersion")
    if not isinstance(version, str) or not version:
        return served == Dialect.T9K
    return version.partition("/")[0] == T9K_GROUP


def kind_of(resource: Object) -> str:
    """Return the kind of a resource, by its API group."""
    return VIRTUAL_CLUSTER if is_virtual(resource) else MPI_JOB


def is_virtual(resource: Object) -> bool:
    """Return whether this is a VirtualCluster."""
    version = resource.get("apiVersion")
    return isinstance(version, str) and version.partition("/")[0] == VIRTUAL_GROUP
