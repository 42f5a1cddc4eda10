"""Reads T9k's MPIJob (batch.tensorstack.dev/v1beta1) into a `Job`, or into all its problems.

Generation 2 (`worker`, `mca`, `mpiHome`) is the one of T9k's user manual, generation 3 (`replicaSpecs`, `mpiConfig`)
that of its tutorials of 2025. Fields of older ones are rejected with a message that says what to write instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.job.fields import INT64_MAX, Fields, Settings, one_of, read_name
from agents.job.json_object import Object
from agents.job.model import (
    LAUNCHER,
    MAX_WORKERS,
    T9K_GROUP,
    WORKER,
    CleanPodPolicy,
    Dialect,
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
)
from agents.job.run_mode import read_run_mode, read_type
from agents.job.ssh import read_ssh
from agents.job.t9k_launcher import launch_command, launcher_template, slots
from agents.job.template import check_size, container_names, main_container, read_template, with_container
from agents.job.worker_agent import read_worker_agent

API_VERSION = f"{T9K_GROUP}/v1beta1"

_GENERATION_2 = ("worker", "mca", "mpiHome")
_GENERATION_3 = ("replicaSpecs", "mpiConfig")
_POLICIES = (RestartPolicy.NEVER, RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS)
_OLDER = "is of an older generation of this API: "


@dataclass(frozen=True, slots=True)
class _Pods:
    """What the generations write in different places. `own` is the launcher's own template."""

    worker: Role
    main: str
    command: tuple[str, ...]
    slots: int
    launcher_restart: RestartPolicy = RestartPolicy.NEVER
    limit: int | None = None  # of the launcher's restarts
    own: Object | None = None


def read_t9k(resource: Object) -> Job | tuple[Problem, ...]:
    """Return the job, or its problems. Any JSON value has one or the other."""
    problems: list[Problem] = []
    root = Fields(resource, "", problems)
    if root.text("apiVersion") not in {"", API_VERSION}:
        root.add(f"must be {API_VERSION}", "apiVersion")
    metadata, spec = root.child("metadata"), root.child("spec")
    settings = Settings(spec, metadata.child("annotations", is_map=True))
    mode = read_run_mode(settings)
    _reject_mixture(spec)
    is_third = any(spec.value.get(key) is not None for key in _GENERATION_3) and spec.value.get("worker") is None
    pods = (_third if is_third else _second)(spec, needs_command=mode.debug is None)
    job = Job(
        name=read_name(metadata, pods.worker.replicas, is_host=True),
        namespace=metadata.needed("namespace"),
        uid=metadata.needed("uid"),
        generation=metadata.number("generation", most=INT64_MAX) or 0,
        api_version=API_VERSION,
        dialect=Dialect.T9K,
        transport=settings.choice("transport", Transport) or Transport.SSH,
        launcher=Role(1, pods.launcher_restart, {}),
        worker=pods.worker,
        policy=_policy(spec, pods.limit, is_paused=mode.is_paused),
        slots=pods.slots,
        main_container=pods.main,
        ssh=read_ssh(settings, Dialect.T9K),
        rbac=settings.choice("rbac", Rbac) or Rbac.MANAGED,
        ranks_lost=settings.choice("ranksLost", RanksLost) or RanksLost.FAIL,
        debug=mode.debug,
        resume=mode.resume,
        worker_agent=read_worker_agent(settings),
        tags_output=settings.flag("tagOutput") is True,
        tools=settings.choices("tools", Tool),
        launch_command=pods.command,
        annotations=settings.annotations,
        is_being_deleted=metadata.value.get("deletionTimestamp") is not None,
    )
    job = replace(job, ignored=tuple(settings.ignored()))
    return tuple(problems) or _with_launcher(job, pods.own or {})


def _with_launcher(job: Job, own: Object) -> Job:
    """Return the job with its launcher, and its workers without the command that T9k has never run there."""
    workers = job.worker.template
    made = launcher_template(workers, job.main_container, job.launch_command, own)
    program = main_container(workers, job.main_container)
    template = with_container(workers, {key: value for key, value in program.items() if key not in ("command", "args")})
    main = main_container(made, job.main_container)
    return replace(
        job,
        launcher=replace(job.launcher, template=made),
        worker=replace(job.worker, template=template),
        # By a readiness probe of the workers; else it waits in its own pod while the images are pulled.
        launcher_waits=job.transport is Transport.SSH
        and any(one.get("readinessProbe") for one in workers["spec"]["containers"]),
        launch_command=(*main.get("command", ()), *main.get("args", ())),
    )


def _reject_mixture(spec: Fields) -> None:
    second, third = (
        [key for key in keys if spec.value.get(key) is not None] for keys in (_GENERATION_2, _GENERATION_3)
    )
    if second and third:
        spec.add(
            f"belongs to another generation of this API than {spec.at(second[0])}: use fields of one generation",
            third[0],
        )


def _second(spec: Fields, *, needs_command: bool) -> _Pods:
    worker = spec.child("worker")
    if not worker.is_given:
        worker.add("is required (or replicaSpecs, in the API's newer generation)")
    _reject_older(worker, "processesPerWorker", 'write extraMPIArgs: ["-N", "<processes>"]')
    _reject_older(worker, "processRecovery", 'write extraMPIArgs: ["--enable-recovery", "--max-restarts", "<limit>"]')
    role = _role(worker, RestartPolicy.NEVER)
    program = _program(worker, "cmd", is_needed=needs_command and worker.is_given)
    arguments = worker.texts("extraMPIArgs")
    command = launch_command(_home(spec, "mpiHome"), _mca(spec), arguments, program)
    return _Pods(role, _main(worker, role, ("mpi-worker",)), command, slots(arguments, role.replicas))


def _third(spec: Fields, *, needs_command: bool) -> _Pods:
    config = spec.child("mpiConfig")
    program = _program(config, "script", is_needed=needs_command)
    arguments = config.texts("extraArgs")
    command = launch_command(_home(config, "home"), _mca(config), arguments, program)
    roles: dict[str, Fields] = {}
    for one in spec.objects("replicaSpecs"):
        if name := read_type(one, roles):
            roles[name] = one
    worker, launcher = roles.get(WORKER), roles.get(LAUNCHER)
    if worker is None:
        if isinstance(spec.value.get("replicaSpecs"), list | type(None)):
            spec.add("must have one of type worker", "replicaSpecs")
        return _Pods(Role(0, RestartPolicy.NEVER, {}), "", command, 1)
    role = _role(worker, _restart(worker)[0])
    main = _main(worker, role, ("worker", "mpi-worker"))
    many = slots(arguments, role.replicas)
    if launcher is None:
        return _Pods(role, main, command, many)
    if launcher.number("replicas") not in {None, 1}:
        launcher.add("must be 1", "replicas")
    restart, limit = _restart(launcher)
    return _Pods(role, main, command, many, restart, limit, read_template(launcher, is_whole=False))


def _role(worker: Fields, restart: RestartPolicy) -> Role:
    replicas = worker.number("replicas", least=1, most=MAX_WORKERS)
    template = read_template(worker) if worker.is_given else {}
    check_size(worker, template, replicas or 1)
    return Role(1 if replicas is None else replicas, restart, template)


def _restart(role: Fields) -> tuple[RestartPolicy, int | None]:
    """Return how a role's pods restart, and how often at most: 0, the API's default, is no limit."""
    restart = role.child("restartPolicy")
    return restart.choice("policy", _POLICIES) or RestartPolicy.NEVER, restart.number("limit", least=0) or None


def _main(worker: Fields, role: Role, names: Sequence[str]) -> str:
    """Return the name of the container that the processes run in."""
    known = container_names(role.template)
    found = next((name for name in names if name in known), "")
    if known and not found:
        wanted = one_of(f'"{name}"' for name in names)
        where = f"{worker.at('template')}.spec.containers"
        message = f"one must be named {wanted}, in which the processes run; there is {', '.join(known)}"
        worker.problems.append(Problem(where, message))
    return found


def _home(fields: Fields, key: str) -> str:
    home = fields.text(key)
    if home and not home.startswith("/"):
        fields.add("must be an absolute path", key)
    return home


def _mca(fields: Fields) -> dict[str, str]:
    mca = fields.child("mca", is_map=True)
    return {key: mca.text(key) for key, value in mca.value.items() if value is not None}


def _program(fields: Fields, key: str, *, is_needed: bool) -> list[str]:
    program = fields.texts(key)
    if is_needed and fields.value.get(key) in (None, []):
        fields.add("is required: the program that mpirun starts (unless the job is debugged)", key)
    return program


def _policy(spec: Fields, restarts: int | None, *, is_paused: bool) -> RunPolicy:
    policy = spec.child("runPolicy")
    scheduler = spec.child("scheduler").child("t9kScheduler")
    backoff = policy.number("backoffLimit", least=0)
    if backoff is None and restarts is not None:
        backoff = restarts + 1  # the restart that is one too many fails the job
    return RunPolicy(
        clean_pods=_clean_pods(policy),
        ttl_s=policy.number("ttlSecondsAfterFinished", least=0),
        active_deadline_s=policy.number("activeDeadlineSeconds", least=0, most=INT64_MAX),
        backoff_limit=backoff,
        is_suspended=is_paused,
        scheduling=Scheduling(
            queue=scheduler.needed("queue"), priority=scheduler.number("priority", least=0, most=100) or 0
        )
        if scheduler.is_given
        else Scheduling(),
    )


def _clean_pods(policy: Fields) -> CleanPodPolicy:
    """Return cleanPodPolicy, which is ours and says more, else cleanUpWorkers."""
    chosen = policy.choice("cleanPodPolicy", CleanPodPolicy)
    if isinstance(policy.value.get("cleanUpWorkers"), str):
        policy.add(
            f'{_OLDER}true for "all", false for "none", and cleanPodPolicy: Running for "unfinished"', "cleanUpWorkers"
        )
        return CleanPodPolicy.NONE
    cleans = policy.flag("cleanUpWorkers") is True
    return chosen or (CleanPodPolicy.ALL if cleans else CleanPodPolicy.NONE)


def _reject_older(fields: Fields, key: str, instead: str) -> None:
    if fields.value.get(key) is not None:
        fields.add(_OLDER + instead, key)
