"""The one model that every dialect's MPIJob is read into.

What a dialect means by a default is decided while reading; nothing behind this model asks for a default again. Where
the two kubeflow versions differ in what they make of a job, `Job.dialect` tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Object = Mapping[str, Any]  # a Kubernetes object, or a part of one, as JSON has it

GROUP = "kubeflow.org"
PREFIX = "mpi-agents/"  # of the annotations and labels that are ours


class Dialect(StrEnum):
    """Whose meaning a job has: the value of `spec.dialect`."""

    V1 = "v1"
    V2BETA1 = "v2beta1"


class Transport(StrEnum):
    """How the launcher's daemons get into the workers."""

    EXEC = "exec"
    SSH = "ssh"


class Implementation(StrEnum):
    """Whose mpirun the launcher calls: what the hostfile looks like, and which variables are set."""

    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class RestartPolicy(StrEnum):
    """What becomes of a role's containers that have ended. ExitCode: 128 and above is tried again (kubeflow's rule)."""

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
class Scheduling:
    """`runPolicy.schedulingPolicy`: None where it was not given."""

    min_available: int | None = None
    queue: str = ""
    min_resources: Mapping[str, str] | None = None
    priority_class: str = ""
    timeout_s: int | None = None


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
    ssh_mount_path: str = "/root/.ssh"
    worker_update: WorkerUpdate = WorkerUpdate.AUTO
    rbac: Rbac = Rbac.MANAGED
    annotations: Mapping[str, str] = field(default_factory=dict)  # the job's own
    is_being_deleted: bool = False

    @property
    def launcher_name(self) -> str:
        """The launcher's Pod (v1) or batch Job (v2beta1), and its ServiceAccount, Role and RoleBinding."""
        return f"{self.name}-launcher"

    @property
    def config_name(self) -> str:
        """The ConfigMap."""
        return f"{self.name}-config"

    def worker_name(self, index: int) -> str:
        """The worker Pod's name."""
        return f"{self.name}-worker-{index}"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an MPIJob, and where: `spec.mpiReplicaSpecs[Worker].replicas`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
