"""`render`: the objects that the operator would make for the MPIJobs of YAML files, without any cluster."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import yaml

from agents.job.modes import effective
from agents.job.read import read
from agents.operator import objects
from agents.operator.settings import PodSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agents.job.model import Job

Object = dict[str, Any]

IMAGE = "mpi-agents"  # of our containers, which the chart names
_API_GROUPS = ("kubeflow.org", "batch.tensorstack.dev")
_UID = "00000000-0000-0000-0000-000000000000"  # the API server gives each job its own


class RenderError(Exception):
    """What is wrong with the files: a line each."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def render(
    files: Sequence[str], *, namespace: str = "default", gang_scheduler: str = "", is_resumed: bool = False
) -> str:
    """Return the objects of the files' jobs as YAML documents. Raises RenderError.

    `namespace`: of jobs that name none. `is_resumed`: as they are made when a paused job goes on.
    """
    settings = PodSettings(IMAGE, gang_scheduler=gang_scheduler)
    parts, wrong = [], []
    for name in files:
        try:
            for resource in _jobs(name):
                resource["metadata"] = {"namespace": namespace, "uid": _UID, **resource["metadata"]}
                found = read(resource)
                if isinstance(found, tuple):
                    wrong += [
                        f"{name}: job {resource['metadata'].get('name', '(without a name)')}: {problem}"
                        for problem in found
                    ]
                else:
                    parts.append(_text(effective(found, is_resumed=is_resumed), settings))
        except RenderError as error:
            wrong += error.lines
    if wrong:
        raise RenderError(wrong)
    return "".join(parts)


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


def _jobs(name: str) -> Iterator[Object]:
    """Give a file's MPIJobs as an API server would have them: what else is in it is nobody's business here."""
    try:
        with open(name, encoding="utf-8") as file:
            documents = list(yaml.safe_load_all(file))
    except RecursionError:
        raise RenderError([f"{name}: is nested too deeply"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RenderError([f"{name}: can't be read: {error}"]) from None
    except yaml.YAMLError as error:
        raise RenderError([f"{name}: is no YAML: {' '.join(str(error).split())}"]) from None
    jobs = [one for one in documents if isinstance(one, dict) and _is_job(one)]
    if not jobs:
        raise RenderError([f"{name}: has no MPIJob of {' or '.join(_API_GROUPS)}"])
    for job in jobs:
        try:
            found: Object = json.loads(json.dumps(job, default=str))  # JSON has no dates, nor keys that are numbers
        except (RecursionError, TypeError, ValueError) as error:  # what contains itself; a key that is a list
            raise RenderError([f"{name}: is YAML that JSON can't say: {error}"]) from None
        found["metadata"] = found["metadata"] if isinstance(found.get("metadata"), dict) else {}
        yield found


def _is_job(document: Object) -> bool:
    group = str(document.get("apiVersion")).partition("/")[0]
    return document.get("kind") == "MPIJob" and group in _API_GROUPS


def _text(job: Job, settings: PodSettings) -> str:
    comments = [f"{job.name} is paused: it has none of these until it goes on."] if job.policy.is_suspended else []
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
