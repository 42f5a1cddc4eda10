"""Builds the objects of a job: pure functions of the job and the operator's settings."""

from __future__ import annotations

from agents.job.model import Job, Transport
from agents.operator.objects.config import config_map, secret, service
from agents.operator.objects.launcher import launcher, tools
from agents.operator.objects.names import template_hash, worker_selector
from agents.operator.objects.pod_group import ignored as ignored_scheduling
from agents.operator.objects.pod_group import pod_group
from agents.operator.objects.rbac import needed_rule, role, role_binding, service_account
from agents.operator.objects.sshd import is_sshd
from agents.operator.objects.worker import worker
from agents.operator.settings import PodSettings

__all__ = [
    "config_map",
    "copies_programs",
    "has_api_token",
    "ignored_scheduling",
    "is_sshd",
    "launcher",
    "needed_rule",
    "pod_group",
    "role",
    "role_binding",
    "secret",
    "service",
    "service_account",
    "shares_processes",
    "template_hash",
    "tools",
    "worker",
    "worker_selector",
]


def shares_processes(job: Job) -> bool:
    """Return whether the user's container sees the processes of the launcher's containers that have the token."""
    spec = job.launcher.template.get("spec", {})
    shares = spec.get("shareProcessNamespace") is True or spec.get("hostPID") is True
    return job.transport is Transport.EXEC and shares


def copies_programs(job: Job, settings: PodSettings) -> bool:
    """Return whether init containers copy programs into the job's pods that an image volume could have instead."""
    has_some = job.transport is Transport.EXEC or job.has_application or bool(tools(job, settings))
    return has_some and not settings.has_image_volumes


def has_api_token(job: Job) -> bool:
    """Return whether the launcher's template asks for a token in its containers: it may exec into the workers."""
    spec = job.launcher.template.get("spec", {})
    return job.transport is Transport.EXEC and spec.get("automountServiceAccountToken") is True
