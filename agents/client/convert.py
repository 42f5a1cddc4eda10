"""Converts a job to another version of kubeflow's API: from v1, v2beta1 or T9k's. Pure.

What the job means, defaults included, is read by our operator's reader and written explicitly, so that it means the
same to our operator. What the other version can't express is named. Settings of ours become annotations, which every
definition keeps and other operators ignore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.client import manifests
from agents.client.errors import ManifestError
from agents.job.json_object import Body, Object, part
from agents.job.model import (
    GROUP,
    LAST_APPLIED,
    MPI_JOB,
    PREFIX,
    Dialect,
    Implementation,
    Job,
    Override,
    RanksLost,
    Rbac,
    RestartPolicy,
    Role,
    Ssh,
    Transport,
    annotation,
)
from agents.job.read import read
from agents.job.template import wants_gpu

_TRANSPORTS = {Dialect.V1: Transport.EXEC, Dialect.V2BETA1: Transport.SSH}  # by default
_RESTARTS = (RestartPolicy.NEVER, RestartPolicy.ON_FAILURE)  # that v2beta1 has
_RETRIES = 6  # of a v2beta1 launcher, whose backoffLimit counts them: a batch Job's default


def converted(resource: Object, version: Dialect) -> tuple[Body, tuple[str, ...]]:
    """Return the job in kubeflow's `version`, and what is lost, a phrase each. Raises ManifestError."""
    metadata = part(resource, "metadata")
    name = metadata.get("name") or metadata.get("generateName") or ""
    read_ = read({**resource, "metadata": {"uid": "0", "namespace": "default", **manifests.named(metadata)}})
    if isinstance(read_, tuple):
        raise ManifestError(f"job {name}: {'; '.join(map(str, read_[:3]))}")
    if read_.dialect is Dialect.VIRTUAL:
        raise ManifestError(f"{name} is a VirtualCluster, not a job")
    job, lost = _expressible(read_, version)
    kept = {key: text for key, text in part(metadata, "annotations").items() if not _is_replaced(key)}
    named = {key: metadata[key] for key in ("name", "generateName", "namespace", "labels") if metadata.get(key)}
    annotations = kept | _annotations(job, version)
    body: Body = {
        "apiVersion": f"{GROUP}/{version}",
        "kind": MPI_JOB,
        "metadata": named | ({"annotations": annotations} if annotations else {}),
        "spec": _spec(job, version),
    }
    after = read({**body, "metadata": {"uid": "0", "namespace": "default", **manifests.named(body["metadata"])}})
    if isinstance(after, tuple):
        raise ManifestError(f"job {name} can't be one of {version}: {'; '.join(map(str, after[:3]))}")
    return body, tuple(lost)


def _is_replaced(key: str) -> bool:
    return key.startswith(PREFIX) or key == LAST_APPLIED


def _expressible(job: Job, version: Dialect) -> tuple[Job, list[str]]:
    """Return the job as the version can have it, and what that changes."""
    lost = []
    if (priority := job.policy.scheduling.priority) is not None:
        lost.append(f"the priority {priority} of T9k's scheduler: set a priorityClass")
    given, job = job, replace(job, policy=replace(job.policy, backoff_limit=_backoff_limit(job, version)))
    if version is Dialect.V1:
        tries = _retries(given)
        if tries and given.dialect is Dialect.V2BETA1 and given.launcher.restart_policy is RestartPolicy.NEVER:
            lost.append(f"{tries} retries of the launcher, which {version} with restartPolicy Never has not")
        return job, lost
    launcher, worker = job.launcher, job.worker
    if (
        job.dialect is not version
        and job.policy.backoff_limit is None
        and launcher.restart_policy is not RestartPolicy.NEVER
    ):
        lost.append(f"launchers without a limit of retries, which {version} has not: {_RETRIES} instead")
    for name, role in (("launcher", launcher), ("workers", worker)):
        if role.restart_policy not in _RESTARTS:
            lost.append(
                f"restartPolicy {role.restart_policy} of the {name}, which {version} has not: OnFailure instead"
            )
    if not worker.replicas and not job.launcher_is_worker:
        lost.append(f"a job without workers, which {version} has not: its launcher is a host instead")
        job = replace(job, launcher_is_worker=True)
    return replace(job, launcher=_restarted(launcher), worker=_restarted(worker)), lost


def _restarted(role: Role) -> Role:
    is_known = role.restart_policy in _RESTARTS
    return role if is_known else replace(role, restart_policy=RestartPolicy.ON_FAILURE)


def _backoff_limit(job: Job, version: Dialect) -> int | None:
    """Return the limit: v2beta1's counts retries, all others' is the failure that is final, at least the first."""
    if (job.dialect is Dialect.V2BETA1) is (version is Dialect.V2BETA1):
        return job.policy.backoff_limit
    tries = _retries(job)
    return tries if version is Dialect.V2BETA1 or tries is None else tries + 1


def _retries(job: Job) -> int | None:
    """Return how often a failed launcher is tried again; None: without limit."""
    limit = job.policy.backoff_limit
    if job.dialect is Dialect.V2BETA1:
        return _RETRIES if limit is None else limit
    if job.launcher.restart_policy is RestartPolicy.NEVER:
        return 0
    return None if limit is None else max(limit, 1) - 1


def _spec(job: Job, version: Dialect) -> Body:
    spec: Body = {"slotsPerWorker": job.slots, "runPolicy": _policy(job)}
    if version is Dialect.V2BETA1:
        spec |= {"mpiImplementation": str(job.implementation), "sshAuthMountPath": job.ssh.mount_path}
        spec |= {"launcherCreationPolicy": "WaitForWorkersReady"} if job.launcher_waits else {}
        spec |= {"runLauncherAsWorker": True} if job.launcher_is_worker else {}
    elif job.main_container:
        spec["mainContainer"] = job.main_container
    if mode := _run_mode(job):
        spec["runMode"] = mode
    if job.tools == ():  # an annotation can't say none
        spec["tools"] = []
    roles = {"Launcher": _role(job.launcher)}
    if job.worker.template:
        roles["Worker"] = _role(job.worker)
    return {**spec, "mpiReplicaSpecs": roles}


def _role(role: Role) -> Body:
    return {"replicas": role.replicas, "restartPolicy": str(role.restart_policy), "template": role.template}


def _policy(job: Job) -> Body:
    policy, scheduling = job.policy, job.policy.scheduling
    gang = {
        "minAvailable": scheduling.min_available,
        "queue": scheduling.queue,
        "minResources": scheduling.min_resources,
        "priorityClass": scheduling.priority_class,
        "scheduleTimeoutSeconds": scheduling.timeout_s,
    }
    given = {
        "cleanPodPolicy": str(policy.clean_pods),
        "ttlSecondsAfterFinished": policy.ttl_s,
        "activeDeadlineSeconds": policy.active_deadline_s,
        "backoffLimit": policy.backoff_limit,
        "suspend": policy.is_suspended or None,
        "managedBy": policy.managed_by,
        "schedulingPolicy": _given(gang),
    }
    return _given(given)


def _given(fields: Mapping[str, Any]) -> Body:
    return {key: value for key, value in fields.items() if value not in (None, "", {})}


def _run_mode(job: Job) -> Body:
    mode: Body = {}
    if job.debug is not None:
        mode["debug"] = {"enabled": True, "replicaSpecs": _overrides(job.debug)}
    if job.resume:
        mode["pause"] = {"resumeSpecs": _overrides(job.resume)}
    return mode


def _overrides(found: Mapping[str, Override]) -> list[Body]:
    return [
        {
            "type": role,
            **({"command": list(one.command)} if one.command is not None else {}),
            **({"args": list(one.args)} if one.args is not None else {}),
            **({"skipInitContainer": True} if one.skips_init_containers else {}),
        }
        for role, one in found.items()
    ]


def _annotations(job: Job, version: Dialect) -> dict[str, str]:
    """Return the settings that the version's fields don't express, or whose default is another one."""
    known = Ssh()
    found: dict[str, str | None] = {
        "transport": str(job.transport) if job.transport is not _TRANSPORTS[version] else None,
        "workerUpdateStrategy": str(job.worker_update) or None,
        "rbac": str(job.rbac) if job.rbac is not Rbac.MANAGED else None,
        "ranksLost": str(job.ranks_lost) if job.ranks_lost is not RanksLost.FAIL else None,
        "workerAgent": None if job.worker_agent is None else str(job.worker_agent),
        "tools": None if not job.tools else ",".join(job.tools),
        "sshdPath": job.ssh.sshd_path if job.ssh.sshd_path != known.sshd_path else None,
        "sshPort": None if job.ssh.port is None else str(job.ssh.port),
        "sshKeyType": str(job.ssh.key_type) if job.ssh.key_type is not known.key_type else None,
        "sshPasswd": str(job.ssh.passwd) or None,
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
    return {annotation(key): text for key, text in found.items() if text}
