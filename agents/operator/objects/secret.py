"""The Secret of an ssh job, without its keys: they are made where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import Transport
from agents.operator.kinds import SECRET
from agents.operator.objects import metadata

if TYPE_CHECKING:
    from agents.job.model import Job
    from agents.operator.settings import PodSettings

_TYPE = "kubernetes.io/ssh-auth"


def secret(job: Job, settings: PodSettings) -> dict[str, Any] | None:
    """Return the Secret without `data`; None for a job that has no use for keys."""
    if job.transport is not Transport.SSH:
        return None
    return {**metadata.new(SECRET, job, job.secret_name, settings), "type": _TYPE}
