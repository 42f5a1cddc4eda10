"""The ConfigMap: what launchers find in /etc/mpi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import Implementation
from agents.operator.kinds import CONFIG_MAP
from agents.operator.objects import metadata, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agents.job.model import Job
    from agents.operator.settings import PodSettings

_KUBEXEC = f"#!{names.TOOLS_PATH}/rshagent\n"


def config_map(job: Job, settings: PodSettings, hosts: Sequence[int]) -> dict[str, Any]:
    """Return the ConfigMap of a job whose workers have these indexes."""
    named = list(_hosts(job, settings, hosts))
    separator = " slots=" if job.implementation is Implementation.OPEN_MPI else ":"
    return {
        **metadata.new(CONFIG_MAP, job, job.config_name, settings),
        "data": {
            "hostfile": "".join(f"{host}{separator}{job.slots}\n" for host in named),
            "kubexec.sh": _KUBEXEC,
            "discover_hosts.sh": _discover_hosts(named, job.slots),
        },
    }


def _hosts(job: Job, settings: PodSettings, hosts: Sequence[int]) -> Iterator[str]:
    if job.launcher_is_worker:
        yield names.launcher_host(job, settings)
    for index in hosts:
        yield names.worker_host(job, index, settings)


def _discover_hosts(hosts: Sequence[str], slots: int) -> str:
    """Return elastic Horovod's script. The hub knows who is Ready; a mounted file is a minute old."""
    lines = "".join(f"echo {host}:{slots}\n" for host in hosts) or ":\n"
    return f"#!/bin/sh\n{names.TOOLS_PATH}/rshagent --discover-hosts || {{\n{lines}}}\n"
