"""`render`: the objects that the operator would make for the MPIJobs of YAML files, without any cluster."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import yaml

from agents.job.run_mode import effective
from agents.operator import objects
from agents.operator.settings import PodSettings

from . import documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.job.model import Job

Object = dict[str, Any]

IMAGE = "mpi-agents"  # of our containers, which the chart names


def render(
    found: Sequence[tuple[str, Object]],
    *,
    namespace: str = "default",
    gang_scheduler: str = "",
    is_resumed: bool = False,
) -> str:
    """Return the objects of manifests' jobs, each given with its file, as YAML documents. Raises DocumentError.

    `namespace`: of jobs that name none. `is_resumed`: the objects of a paused job that is resumed.
    """
    settings = PodSettings(IMAGE, gang_scheduler=gang_scheduler)
    jobs = documents.jobs(found, namespace)
    return "".join(_text(effective(job, is_resumed=is_resumed), settings) for job in jobs)


def bodies(job: Job, settings: PodSettings) -> list[Object]:
    """Return a job's objects in the order in which they are made; the Secret without its keys."""
    hosts = range(job.worker.replicas)
    found = (
        objects.config_map(job, settings, hosts),
        objects.secret(job, settings),
        objects.service(job, settings),
        objects.service_account(job, settings),
        objects.role(job, settings, hosts),
        objects.role_binding(job, settings),
        objects.pod_group(job, settings),
        *(objects.worker(job, index, settings) for index in hosts),
        objects.launcher(job, settings),
    )
    return [one for one in found if one is not None]


def _text(job: Job, settings: PodSettings) -> str:
    comments = [f"{job.name} is paused: it has none of these until it is resumed."] if job.policy.is_suspended else []
    if job.launch_command:
        comments.append(shlex.join(job.launch_command))
    head = "".join(f"# {line}\n" for comment in comments for line in comment.splitlines())
    dumped = "".join(f"---\n{yaml.dump(body, Dumper=_DUMPER, sort_keys=False)}" for body in bodies(job, settings))
    return head + dumped


def _as_block(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if text.endswith("\n") else None)


# Without anchors, and with files as a person would write them.
_DUMPER: Any = type("_Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
_DUMPER.add_representer(str, _as_block)
