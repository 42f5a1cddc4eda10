"""The objects of a job, as they are created: pure functions of the job and the operator's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.model import Transport
from agents.operator.objects.config_map import config_map
from agents.operator.objects.launcher import launcher
from agents.operator.objects.metadata import template_hash
from agents.operator.objects.names import worker_selector
from agents.operator.objects.pod_group import pod_group
from agents.operator.objects.rbac import needed_rule, role, role_binding, service_account
from agents.operator.objects.secret import secret
from agents.operator.objects.service import service
from agents.operator.objects.sshd import is_sshd
from agents.operator.objects.worker import worker

if TYPE_CHECKING:
    from agents.job.model import Job

__all__ = [
    "config_map",
    "has_api_token",
    "is_sshd",
    "launcher",
    "needed_rule",
    "pod_group",
    "role",
    "role_binding",
    "secret",
    "service",
    "service_account",
    "template_hash",
    "worker",
    "worker_selector",
]


def has_api_token(job: Job) -> bool:
    """Return whether the launcher's template asks for a token in its containers: it may exec into the workers."""
    spec = job.launcher.template.get("spec", {})
    return job.transport is Transport.EXEC and spec.get("automountServiceAccountToken") is True
