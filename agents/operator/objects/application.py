"""Delivery of the programs of application containers, in every pod that has some (`agents.job.application`)."""

from __future__ import annotations

from agents.job.application import FOLDER, RUNNER, VOLUME, WRAP
from agents.job.json_object import Body
from agents.job.model import Job
from agents.operator.objects import injected, names, pod
from agents.operator.settings import PodSettings

_ENVIRONMENT = {"MPI_AGENT_WAIT": "false", "MPI_AGENT_HOSTFILE": "/dev/null"}  # it copies, and that is all


def deliver(job: Job, settings: PodSettings, spec: Body) -> None:
    """Add the container that copies them. It ends before others start: one file of the volume is mounted by itself."""
    if not job.has_application:
        return
    container = {
        **injected.container(names.APPLICATION, settings, spec),
        "command": ["mpi-delivery", "--target", FOLDER, RUNNER, WRAP],
        "env": pod.variables(_ENVIRONMENT),
    }
    pod.mount(container, VOLUME, FOLDER)
    injected.inject(settings, spec, container)
