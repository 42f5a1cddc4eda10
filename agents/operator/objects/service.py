"""The headless Service: names of pods in DNS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.operator.kinds import SERVICE
from agents.operator.objects import metadata, names

if TYPE_CHECKING:
    from agents.job.model import Job
    from agents.operator.settings import PodSettings


def service(job: Job, settings: PodSettings) -> dict[str, Any]:
    """Return the Service. Pods have their names before they are ready: daemons start in them as soon as they run."""
    return {
        **metadata.new(SERVICE, job, names.service_name(job), settings),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {names.JOB_UID: job.uid}},
    }
