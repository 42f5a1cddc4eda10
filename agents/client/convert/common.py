"""What the targets share: a job's policy, mode and settings as fields and annotations. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.job.json_object import Body, Object
from agents.job.model import (
    Dialect,
    Job,
    Override,
    RanksLost,
    Rbac,
    RestartPolicy,
    RunPolicy,
    Scheduling,
    Ssh,
    annotation,
)
from agents.job.template import container_names, main_container

RETRIES = 6  # of a v2beta1 launcher, whose backoffLimit counts them: a batch Job's default


@dataclass(frozen=True, slots=True)
class Converted:
    """Manifests to apply, in this order, and what they can't express, a phrase each. `name`: of what was converted."""

    name: str
    manifests: tuple[Body, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A job in another API. `job` is what that API can have of it; `lost` is what it can't, a phrase each."""

    job: Job
    spec: Body
    annotations: dict[str, str]
    lost: list[str]


def retries(job: Job) -> int | None:
    """Return how often a failed launcher is tried again; None: without limit."""
    limit = job.policy.backoff_limit
    if job.dialect is Dialect.V2BETA1:
        return RETRIES if limit is None else limit
    if job.launcher.restart_policy is RestartPolicy.NEVER:
        return 0
    return None if limit is None else max(limit, 1) - 1


def backoff_limit(job: Job, version: Dialect) -> int | None:
    """Return the limit: v2beta1's counts retries, all others' is the failure that is final, at least the first."""
    if (job.dialect is Dialect.V2BETA1) is (version is Dialect.V2BETA1):
        return job.policy.backoff_limit
    tries = retries(job)
    return tries if version is Dialect.V2BETA1 or tries is None else tries + 1


def limits(policy: RunPolicy) -> Body:
    """Return when the job ends, as runPolicy has it in all APIs."""
    return given(
        {
            "ttlSecondsAfterFinished": policy.ttl_s,
            "activeDeadlineSeconds": policy.active_deadline_s,
            "backoffLimit": policy.backoff_limit,
        }
    )


def gang(scheduling: Scheduling) -> Body:
    """Return what was given of `runPolicy.schedulingPolicy`."""
    return given(
        {
            "minAvailable": scheduling.min_available,
            "queue": scheduling.queue,
            "minResources": scheduling.min_resources,
            "priorityClass": scheduling.priority_class,
            "scheduleTimeoutSeconds": scheduling.timeout_s,
        }
    )


def given(fields: Mapping[str, Any]) -> Body:
    """Return the fields that have a value."""
    return {key: value for key, value in fields.items() if value not in (None, "", {})}


def with_main(template: Object, main: str, changes: Object) -> Body:
    """Return the template with its main container changed; None drops a field."""
    chosen = main_container(template, main)
    changed = {key: value for key, value in {**chosen, **changes}.items() if value is not None}
    containers = [changed if one is chosen else one for one in template["spec"]["containers"]]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def has_other(job: Job, name: str) -> bool:
    """Return whether a container other than that of the launcher or ranks has this name."""
    templates = [role.template for role in (job.launcher, job.worker) if role.template]
    return any(
        name in container_names(one) and main_container(one, job.main_container)["name"] != name for one in templates
    )


def run_mode(job: Job) -> Body:
    """Return `spec.runMode` without the pause."""
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


def settings(job: Job) -> dict[str, str | None]:
    """Return the settings of ours that all APIs have as annotations, where they are not the default."""
    known = Ssh()
    return {
        "rbac": str(job.rbac) if job.rbac is not Rbac.MANAGED else None,
        "ranksLost": str(job.ranks_lost) if job.ranks_lost is not RanksLost.FAIL else None,
        "workerAgent": None if job.worker_agent is None else str(job.worker_agent),
        "tagOutput": "true" if job.tags_output else None,
        "tools": None if not job.tools else ",".join(job.tools),
        "sshPort": None if job.ssh.port is None else str(job.ssh.port),
        "sshKeyType": str(job.ssh.key_type) if job.ssh.key_type is not known.key_type else None,
        "sshPasswd": str(job.ssh.passwd) or None,
    }


def as_annotations(found: Mapping[str, str | None]) -> dict[str, str]:
    """Return settings as annotations."""
    return {annotation(key): text for key, text in found.items() if text}
