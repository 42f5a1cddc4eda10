"""The ConfigMap: what launchers find in /etc/mpi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import Implementation, Transport
from agents.operator.kinds import CONFIG_MAP
from agents.operator.objects import metadata, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agents.job.model import Job
    from agents.operator.settings import PodSettings

_NOTHING = ":\n"
_KUBEXEC = f"#!{names.TOOLS_PATH}/rshagent\n"


def config_map(
    job: Job, settings: PodSettings, hosts: Sequence[int], running: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return the ConfigMap of a job whose workers have these indexes. `running`: those that run, if that is known."""
    separator = " slots=" if job.implementation is Implementation.OPEN_MPI else ":"
    files = {"hostfile": "".join(f"{host}{separator}{job.slots}\n" for host in _hosts(job, settings, hosts))}
    if job.transport is Transport.SSH:
        files["discover_hosts.sh"] = "#!/bin/sh\n" + _echoed(job, settings, hosts if running is None else running)
    else:
        files["kubexec.sh"] = _KUBEXEC
        files["discover_hosts.sh"] = _asked_first(_echoed(job, settings, hosts))
    return {**metadata.new(CONFIG_MAP, job, job.config_name, settings), "data": files}


def _echoed(job: Job, settings: PodSettings, hosts: Sequence[int]) -> str:
    return "".join(f"echo {host}:{job.slots}\n" for host in _hosts(job, settings, hosts))


def _hosts(job: Job, settings: PodSettings, hosts: Sequence[int]) -> Iterator[str]:
    if job.launcher_is_worker:
        yield names.launcher_host(job, settings)
    for index in hosts:
        yield names.worker_host(job, index, settings)


def _asked_first(lines: str) -> str:
    """Return elastic Horovod's script. The hub knows who is Ready; a mounted file is a minute old."""
    return f"#!/bin/sh\n{names.TOOLS_PATH}/rshagent --discover-hosts || {{\n{lines or _NOTHING}}}\n"
