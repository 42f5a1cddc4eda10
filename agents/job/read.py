"""Reads a resource from the API server into a `Job`, or into all its problems.

T9k's MPIJobs are read by `t9k`, VirtualClusters by `virtual_cluster`.

kubeflow's two dialects are one table of rules and defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from agents.job.fields import INT64_MAX, Fields, Settings, read_name
from agents.job.json_object import Object, mappings, part
from agents.job.model import (
    GROUP,
    KUBEFLOW,
    MAX_WORKERS,
    PREFIX,
    CleanPodPolicy,
    Dialect,
    Implementation,
    Job,
    Problem,
    RanksLost,
    Rbac,
    RestartPolicy,
    Role,
    RunPolicy,
    Scheduling,
    Tool,
    Transport,
    WorkerUpdate,
    annotation,
    is_t9k,
    is_virtual,
)
from agents.job.run_mode import RunMode, read_run_mode
from agents.job.ssh import read_ssh
from agents.job.t9k import read_t9k
from agents.job.template import check_size, read_main_container, read_template, wants_gpu
from agents.job.unknown import closest, ignored_types
from agents.job.virtual_cluster import read_virtual
from agents.job.worker_agent import read_worker_agent


class _LauncherCreation(StrEnum):
    AT_STARTUP = "AtStartup"
    WAIT = "WaitForWorkersReady"


@dataclass(frozen=True, slots=True)
class _Rules:
    """A dialect's defaults, and what its operators reject.

    v1: mpi-operator v0.3.0 `v1/default.go`, training-operator v1.9.3 `mpi_defaults.go` and `mpi_validation.go`.
    v2beta1: mpi-operator v0.8.2 `v2beta1/default.go` and `validation.go`.
    """

    transport: Transport
    launcher_restart: RestartPolicy
    restart_policies: tuple[RestartPolicy, ...]
    workers_are_hosts: bool  # `<job>-worker-N` is a host name
    least_workers: int
    other_clean_pods: CleanPodPolicy | None  # what an unknown cleanPodPolicy means, None if it is rejected


_RULES = {
    Dialect.V1: _Rules(
        transport=Transport.EXEC,
        launcher_restart=RestartPolicy.NEVER,
        restart_policies=tuple(RestartPolicy),
        workers_are_hosts=False,
        least_workers=0,
        other_clean_pods=CleanPodPolicy.NONE,
    ),
    Dialect.V2BETA1: _Rules(
        transport=Transport.SSH,
        launcher_restart=RestartPolicy.ON_FAILURE,
        restart_policies=(RestartPolicy.NEVER, RestartPolicy.ON_FAILURE),
        workers_are_hosts=True,
        least_workers=1,
        other_clean_pods=None,
    ),
}

OUR_CONTROLLERS = (  # those that we replace, and ourselves: a name that they leave alone
    "kubeflow.org/mpi-operator",
    "kubeflow.org/training-operator",
    f"{PREFIX}operator",
)

_TYPES = ("Launcher", "Worker")  # of replicas
_DIALECTS = {str(dialect): dialect for dialect in KUBEFLOW}
_API_VERSIONS = {f"{GROUP}/{dialect}": dialect for dialect in KUBEFLOW}


def dialect_of(resource: Object, served: str) -> Dialect:
    """Return a job's dialect; a wrong value anywhere counts as absent.

    Of kubeflow's: the annotation, `spec.dialect` (our CRD's default is each version's own), the version by which the
    job was written first (managedFields: kubeflow's own CRD drops `spec.dialect`), the version it is read by.
    """
    if is_t9k(resource, served):
        return Dialect.T9K
    if is_virtual(resource):
        return Dialect.VIRTUAL
    metadata, spec = part(resource, "metadata"), part(resource, "spec")
    written = mappings(metadata.get("managedFields"))
    versions = [entry.get("apiVersion") for entry in written if not entry.get("subresource")]
    chosen = (part(metadata, "annotations").get(annotation("dialect")), spec.get("dialect"))
    found = [_DIALECTS.get(name) for name in chosen if isinstance(name, str)]
    found += [_API_VERSIONS.get(one) for one in (*versions, resource.get("apiVersion")) if isinstance(one, str)]
    return next((dialect for dialect in found if dialect), _DIALECTS.get(served, Dialect.V2BETA1))


def is_managed_elsewhere(resource: Object) -> bool:
    """Return whether `runPolicy.managedBy` names another controller (Kueue's, on a cluster that hands its jobs on).

    Such a job is ignored even if it is invalid: kubeflow checks this before it validates.
    """
    policy = part(resource, "spec", "runPolicy")
    name = policy.get("managedBy")
    return isinstance(name, str) and name not in ("", *OUR_CONTROLLERS)


def read(resource: Object, *, served: str = "v2beta1") -> Job | tuple[Problem, ...]:
    """Return the job, or its problems. Any JSON value has one or the other.

    `served`: the version of kubeflow's that it was got by; "t9k" for T9k's.
    """
    if isinstance(resource, Mapping) and is_t9k(resource, served):
        return read_t9k(resource)
    if isinstance(resource, Mapping) and is_virtual(resource):
        return read_virtual(resource)
    problems: list[Problem] = []
    root = Fields(resource, "", problems)
    metadata, spec = root.child("metadata"), root.child("spec")
    settings = Settings(spec, metadata.child("annotations", is_map=True))
    settings.choice("dialect", KUBEFLOW)
    dialect = dialect_of(root.value, served)
    rules, mode = _RULES[dialect], read_run_mode(settings)

    roles = spec.child("mpiReplicaSpecs", is_map=True)
    if not roles.value:
        roles.add("must have a Launcher")
    launcher = _launcher(roles, rules)
    launcher_is_worker = _launcher_is_worker(settings, dialect, launcher)
    worker = _worker(roles, rules, may_be_none=launcher_is_worker)
    waits = settings.choice("launcherCreationPolicy", _LauncherCreation, otherwise=_LauncherCreation.AT_STARTUP)
    job = Job(
        name=read_name(metadata, worker.replicas, is_host=rules.workers_are_hosts),
        namespace=metadata.needed("namespace"),
        uid=metadata.needed("uid"),
        generation=metadata.number("generation", most=INT64_MAX) or 0,
        api_version=_api_version(root, served),
        dialect=dialect,
        transport=settings.choice("transport", Transport) or rules.transport,
        launcher=launcher,
        worker=worker,
        policy=_policy(spec, rules, mode),
        implementation=settings.choice("mpiImplementation", Implementation) or Implementation.OPEN_MPI,
        slots=spec.number("slotsPerWorker", least=1) or 1,
        main_container=read_main_container(settings, worker.template, "workers"),
        launcher_is_worker=launcher_is_worker,
        launcher_waits=waits is _LauncherCreation.WAIT,
        ssh=read_ssh(settings, dialect),
        worker_update=settings.choice("workerUpdateStrategy", WorkerUpdate) or WorkerUpdate.AUTO,
        rbac=settings.choice("rbac", Rbac) or Rbac.MANAGED,
        ranks_lost=settings.choice("ranksLost", RanksLost) or RanksLost.FAIL,
        debug=mode.debug,
        resume=mode.resume,
        worker_agent=read_worker_agent(settings),
        tags_output=settings.flag("tagOutput") is True,
        tools=settings.choices("tools", Tool),
        annotations=settings.annotations,
        is_being_deleted=metadata.value.get("deletionTimestamp") is not None,
    )
    types = ignored_types(roles.path, roles.names, _TYPES)
    return tuple(problems) or replace(job, ignored=(*types, *settings.ignored()))


def _launcher(roles: Fields, rules: _Rules) -> Role:
    role = roles.child(_TYPES[0])
    if roles.value and not role.is_given:
        meant = closest(_TYPES[0], {*roles.names} - {*_TYPES})
        role.add(f"is required{f', and {meant} is unknown' if meant else ''}")
    replicas = role.number("replicas")
    if replicas not in {None, 1}:
        role.add("must be 1", "replicas")
    restart = role.choice("restartPolicy", rules.restart_policies) or rules.launcher_restart
    return Role(1, restart, _template(role, 1) if role.is_given else {})


def _worker(roles: Fields, rules: _Rules, *, may_be_none: bool) -> Role:
    role = roles.child(_TYPES[1])
    restart = role.choice("restartPolicy", rules.restart_policies) or RestartPolicy.NEVER
    if not role.is_given:
        return Role(0, restart, {})
    least = 0 if may_be_none else rules.least_workers
    replicas = role.number("replicas", least=least, most=MAX_WORKERS)
    if role.value.get("replicas") is None and least:
        role.add(f"must be {least} or more", "replicas")
    return Role(replicas or 0, restart, _template(role, replicas or 0))


def _template(role: Fields, replicas: int) -> Object:
    template = read_template(role)
    check_size(role, template, replicas)
    return template


def _policy(spec: Fields, rules: _Rules, mode: RunMode) -> RunPolicy:
    policy = spec.child("runPolicy")
    scheduling = policy.child("schedulingPolicy")
    resources = scheduling.child("minResources", is_map=True)
    clean = [one.choice("cleanPodPolicy", CleanPodPolicy, otherwise=rules.other_clean_pods) for one in (policy, spec)]
    return RunPolicy(
        clean_pods=clean[0] or clean[1] or CleanPodPolicy.NONE,
        ttl_s=policy.number("ttlSecondsAfterFinished", least=0),
        active_deadline_s=policy.number("activeDeadlineSeconds", least=0, most=INT64_MAX),
        backoff_limit=policy.number("backoffLimit", least=0),
        is_suspended=policy.flag("suspend") is True or mode.is_paused,
        managed_by=policy.text("managedBy"),
        scheduling=Scheduling(
            min_available=scheduling.number("minAvailable"),
            queue=scheduling.text("queue"),
            min_resources=resources.quantities() if resources.is_given else None,
            priority_class=scheduling.text("priorityClass"),
            timeout_s=scheduling.number("scheduleTimeoutSeconds"),
        ),
    )


def _api_version(root: Fields, served: str) -> str:
    given = root.text("apiVersion")
    if given and given not in _API_VERSIONS:
        root.add(f"must be {' or '.join(sorted(_API_VERSIONS))}", "apiVersion")
    return given or f"{GROUP}/{served}"


def _launcher_is_worker(settings: Settings, dialect: Dialect, launcher: Role) -> bool:
    """Return whether the launcher is in the hostfile: v1 puts one that has a GPU there, unless the annotation says no.

    v1's field can't say no: an update through v2beta1 gives it that version's default, false.
    """
    chosen = settings.flag("runLauncherAsWorker") is True
    if chosen or dialect is not Dialect.V1 or settings.is_annotated("runLauncherAsWorker"):
        return chosen
    return wants_gpu(launcher.template)
