"""A job in T9k's API, of its generation 3. Pure.

T9k makes the launcher's template of the workers' and lays the job's own one over it. So what only the workers have
gets into the launcher too; it is named. Its mpirun is Open MPI's.
"""

from __future__ import annotations

from dataclasses import replace

from agents.client.command_line import name_of
from agents.client.convert import mpirun
from agents.client.convert.common import (
    Form,
    as_annotations,
    backoff_limit,
    given,
    has_other,
    limits,
    retries,
    run_mode,
    settings,
    with_main,
)
from agents.client.errors import ManifestError
from agents.job.json_object import Body, Object
from agents.job.model import (
    LAUNCHER,
    WORKER,
    CleanPodPolicy,
    Dialect,
    Implementation,
    Job,
    RestartPolicy,
    Role,
    Transport,
)
from agents.job.t9k_launcher import HOSTFILE, launch_command, slots
from agents.job.template import main_container

_MAIN = ("worker", "mpi-worker")  # names of the workers' container that ranks run in
_POLICIES = (RestartPolicy.NEVER, RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS)


def to_t9k(job: Job) -> Form:
    """Return the job in T9k's API. Raises ManifestError if it can't be one."""
    _check(job)
    job, lost = _expressible(job)
    config, line = _config(job, _command(job.launcher.template, job.main_container))
    own = job.launcher.template
    if line:  # mpirun's line is made of the job's fields
        own = with_main(own, job.main_container, {"command": None, "args": None})
        made = with_main(own, job.main_container, {"command": line})
        job = replace(job, launcher=replace(job.launcher, template=made))
    spec: Body = {
        "mpiConfig": config,
        "replicaSpecs": [
            {"type": WORKER, **_role(job.worker, job.worker.template)},
            {"type": LAUNCHER, **_role(job.launcher, own)},
        ],
        "ssh": {"sshdPath": job.ssh.sshd_path, "sshAuthMountPath": job.ssh.mount_path},
        "runPolicy": _clean(job.policy.clean_pods) | limits(job.policy),
    }
    if queue := job.policy.scheduling.queue:
        spec["scheduler"] = {"t9kScheduler": {"queue": queue, "priority": job.policy.scheduling.priority or 0}}
    mode = run_mode(job)
    if job.policy.is_suspended:
        mode["pause"] = {"enabled": True} | mode.get("pause", {})
    if mode:
        spec["runMode"] = mode
    if job.tools == ():  # an annotation can't say none
        spec["tools"] = []
    transport = str(job.transport) if job.transport is not Transport.SSH else None
    return Form(job, spec, as_annotations(settings(job) | {"transport": transport}), lost)


def _check(job: Job) -> None:
    reason = ""
    if job.implementation is not Implementation.OPEN_MPI:
        reason = f"T9k's mpirun is Open MPI's, not that of {job.implementation}"
    elif not job.worker.replicas:
        reason = "it has no workers"
    elif job.debug is None and not _command(job.launcher.template, job.main_container):
        reason = "its launcher has no command, and T9k makes an mpirun line of it"
    elif has_other(job, _MAIN[0]):
        reason = f"it has a container {_MAIN[0]} in addition to the ranks' container"
    if reason:
        raise ManifestError(f"job {job.name} can't be one of T9k's: {reason}")


def _expressible(job: Job) -> tuple[Job, list[str]]:
    """Return the job without what T9k can't express, except the launcher's share of the workers, and what was lost."""
    lost = []
    tries = retries(job)
    if tries and job.launcher.restart_policy is RestartPolicy.NEVER:
        lost.append(f"{tries} retries of the launcher, which T9k with restartPolicy Never has not")
    roles = {"launcher": job.launcher, "workers": job.worker}
    for name, role in roles.items():
        if role.restart_policy not in _POLICIES:
            lost.append(f"restartPolicy {role.restart_policy} of the {name}: OnFailure instead")
            roles[name] = replace(role, restart_policy=RestartPolicy.ON_FAILURE)
    old_name = str(main_container(job.worker.template, job.main_container)["name"])
    name = old_name if old_name in _MAIN else _MAIN[0]
    if name != old_name:
        lost.append(f"the name {old_name} of the container that ranks run in: {name} instead")
    if not _command(job.launcher.template, job.main_container):
        lost.append("the launcher's own command, which is its image's")
    worker = roles["workers"].template
    if {"command", "args"} & set(main_container(worker, old_name)):
        lost.append("the command of the workers: T9k's run sshd, or wait")
    launcher = roles["launcher"].template
    own = str(main_container(launcher, job.main_container)["name"])
    changes = {"name": name, "command": None, "args": None}
    job = replace(
        job,
        launcher=replace(roles["launcher"], template=with_main(launcher, own, {"name": name})),
        worker=replace(roles["workers"], template=with_main(worker, old_name, changes)),
        main_container=name,
        policy=replace(job.policy, backoff_limit=backoff_limit(job, Dialect.T9K)),
    )
    return job, lost


def _command(template: Object, main: str) -> list[str]:
    """Return what the launcher runs, [] if that is the image's to say."""
    chosen = main_container(template, main)
    return [*chosen["command"], *chosen.get("args", ())] if chosen.get("command") else []


def _config(job: Job, command: list[str]) -> tuple[Body, list[str]]:
    """Return mpiConfig, and the line that T9k makes of it.

    The line is [] if no fields make the launcher's command: its own template has it, and the fields only say how many
    slots a worker has.
    """
    if not command:  # it is debugged
        arguments = ["-N", str(job.slots)]
        return {"extraArgs": arguments}, [*launch_command("", {}, arguments, ())]
    found = mpirun.split(command)
    if found is None:
        return {"extraArgs": ["-N", str(job.slots)], "script": command}, []
    home, line = found
    ours = [("--hostfile", HOSTFILE), ("-hostfile", HOSTFILE), ("--prefix", home)]
    options = [one for one in line.options if one not in ours]
    arguments = [word for option in options for word in option]
    names = {name_of(one[0]) for one in options}
    if not line.program or names & {"hostfile", "prefix"} or slots(arguments, job.worker.replicas) != job.slots:
        return {"extraArgs": ["-N", str(job.slots)], "script": command}, []
    config = given({"home": home, "extraArgs": arguments}) | {"script": list(line.program)}
    return config, [*launch_command(home, {}, arguments, line.program)]


def _role(role: Role, template: Object) -> Body:
    return {
        "replicas": role.replicas,
        "restartPolicy": {"policy": str(role.restart_policy)},
        "template": template,
    }


def _clean(policy: CleanPodPolicy) -> Body:
    if policy is CleanPodPolicy.RUNNING:
        return {"cleanPodPolicy": str(policy)}
    return {"cleanUpWorkers": policy is CleanPodPolicy.ALL}
