"""A job in a version of kubeflow's API. Pure.

Settings of ours become annotations, which every definition keeps and other operators ignore.
"""

from __future__ import annotations

from dataclasses import replace

from agents.client.convert.common import (
    RETRIES,
    Form,
    as_annotations,
    backoff_limit,
    gang,
    given,
    limits,
    retries,
    run_mode,
    settings,
)
from agents.job.json_object import Body
from agents.job.model import Dialect, Implementation, Job, RestartPolicy, Role, RunPolicy, Ssh, Transport
from agents.job.template import wants_gpu

_TRANSPORTS = {Dialect.V1: Transport.EXEC, Dialect.V2BETA1: Transport.SSH}  # by default
_RESTARTS = (RestartPolicy.NEVER, RestartPolicy.ON_FAILURE)  # that v2beta1 has


def to_kubeflow(job: Job, version: Dialect) -> Form:
    """Return the job in v1 or v2beta1."""
    job, lost = expressible(job, version)
    return Form(job, _spec(job, version), _annotations(job, version), lost)


def expressible(job: Job, version: Dialect, api: str = "") -> tuple[Job, list[str]]:
    """Return the job as the version can have it, and what that changes. `api`: what is like that version."""
    api = api or str(version)
    lost = []
    if priority := job.policy.scheduling.priority:  # 0 is T9k's default
        lost.append(f"the priority {priority} of T9k's scheduler: set a priorityClass")
    original, job = job, replace(job, policy=replace(job.policy, backoff_limit=backoff_limit(job, version)))
    if version is Dialect.V1:
        tries = retries(original)
        if tries and original.dialect is Dialect.V2BETA1 and original.launcher.restart_policy is RestartPolicy.NEVER:
            lost.append(f"{tries} retries of the launcher, which {api} with restartPolicy Never has not")
        return job, lost
    launcher, worker = job.launcher, job.worker
    if (
        job.dialect is not version
        and job.policy.backoff_limit is None
        and launcher.restart_policy is not RestartPolicy.NEVER
    ):
        lost.append(f"launchers without a limit of retries, which {api} has not: {RETRIES} instead")
    for name, role in (("launcher", launcher), ("workers", worker)):
        if role.restart_policy not in _RESTARTS:
            lost.append(f"restartPolicy {role.restart_policy} of the {name}, which {api} has not: OnFailure instead")
    if not worker.replicas and not job.launcher_is_worker:
        lost.append(f"a job without workers, which {api} has not: its launcher is a host instead")
        job = replace(job, launcher_is_worker=True)
    return replace(job, launcher=_restarted(launcher), worker=_restarted(worker)), lost


def _restarted(role: Role) -> Role:
    is_known = role.restart_policy in _RESTARTS
    return role if is_known else replace(role, restart_policy=RestartPolicy.ON_FAILURE)


def _spec(job: Job, version: Dialect) -> Body:
    spec: Body = {"slotsPerWorker": job.slots, "runPolicy": _policy(job.policy)}
    if version is Dialect.V2BETA1:
        spec |= {"mpiImplementation": str(job.implementation), "sshAuthMountPath": job.ssh.mount_path}
        spec |= {"launcherCreationPolicy": "WaitForWorkersReady"} if job.launcher_waits else {}
        spec |= {"runLauncherAsWorker": True} if job.launcher_is_worker else {}
    elif job.main_container:
        spec["mainContainer"] = job.main_container
    if mode := run_mode(job):
        spec["runMode"] = mode
    if job.tools == ():  # an annotation can't say none
        spec["tools"] = []
    roles = {"Launcher": _role(job.launcher)}
    if job.worker.template:
        roles["Worker"] = _role(job.worker)
    return {**spec, "mpiReplicaSpecs": roles}


def _role(role: Role) -> Body:
    return {"replicas": role.replicas, "restartPolicy": str(role.restart_policy), "template": role.template}


def _policy(policy: RunPolicy) -> Body:
    others = {
        "suspend": policy.is_suspended or None,
        "managedBy": policy.managed_by,
        "schedulingPolicy": gang(policy.scheduling),
    }
    return {"cleanPodPolicy": str(policy.clean_pods), **limits(policy), **given(others)}


def _annotations(job: Job, version: Dialect) -> dict[str, str]:
    """Return the settings that the version's fields don't express, or whose default is another one."""
    known = Ssh()
    found = settings(job) | {
        "transport": str(job.transport) if job.transport is not _TRANSPORTS[version] else None,
        "workerUpdateStrategy": str(job.worker_update) or None,
        "sshdPath": job.ssh.sshd_path if job.ssh.sshd_path != known.sshd_path else None,
    }
    if version is Dialect.V2BETA1:
        found["mainContainer"] = job.main_container or None
    else:
        is_by_default = wants_gpu(job.launcher.template)
        is_other = job.implementation is not Implementation.OPEN_MPI
        found["mpiImplementation"] = str(job.implementation) if is_other else None
        found["sshAuthMountPath"] = job.ssh.mount_path if job.ssh.mount_path != known.mount_path else None
        found["launcherCreationPolicy"] = "WaitForWorkersReady" if job.launcher_waits else None
        is_host = job.launcher_is_worker
        found["runLauncherAsWorker"] = str(is_host).lower() if is_host is not is_by_default else None
    return as_annotations(found)
