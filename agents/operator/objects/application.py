"""Delivery of the programs of application containers, in every pod that has some (`agents.job.application`).

An image volume has them without an init container. Container runtimes mount only folders of it, so `mpi-wrap` on the
PATH, a single file, is then a script of the job's ConfigMap.
"""

from __future__ import annotations

from agents.job.application import FOLDER, RUNNER, VOLUME, WRAP
from agents.job.json_object import Body
from agents.job.model import Job
from agents.operator.objects import injected, names, pod
from agents.operator.settings import PodSettings

_ENVIRONMENT = {"MPI_AGENT_WAIT": "false", "MPI_AGENT_HOSTFILE": "/dev/null"}  # it copies, and that is all


def deliver(job: Job, settings: PodSettings, spec: Body) -> None:
    """Mount our image where they are used, or else add the container that copies them."""
    if not job.has_application:
        return
    if settings.has_image_volumes:
        _mount_image(job, settings, spec)
    else:
        _add_container(settings, spec)


def _mount_image(job: Job, settings: PodSettings, spec: Body) -> None:
    image = injected.add_image_volume(settings, spec, settings.image)
    wrap = pod.add_volume(spec, names.WRAP_VOLUME, pod.config_volume(job, [WRAP]))
    for container in spec["containers"]:
        mounts = [one for one in container.get("volumeMounts", []) if one["name"] == VOLUME]
        for one in mounts:
            if one.get("subPath") == WRAP:
                one["name"] = wrap
        if container.get("command", [])[:1] == [f"{FOLDER}/{RUNNER}"]:
            container["command"][0] = f"{names.PROGRAMS_PATH}/{RUNNER}"
        if mounts:
            pod.mount(container, image, names.PROGRAMS_PATH, folder=names.IMAGE_TOOLS, is_read_only=True)


def _add_container(settings: PodSettings, spec: Body) -> None:
    """Add the container that copies them. It ends before others start: one file of the volume is mounted by itself."""
    container = {
        **injected.container(names.APPLICATION, settings, spec),
        "command": ["mpi-delivery", "--target", FOLDER, RUNNER, WRAP],
        "env": pod.variables(_ENVIRONMENT),
    }
    pod.mount(container, VOLUME, FOLDER)
    injected.inject(settings, spec, container)
