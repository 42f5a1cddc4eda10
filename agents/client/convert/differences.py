"""What an API makes of a converted job that the job was not. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agents.client.convert.common import gang
from agents.job.json_object import Object
from agents.job.model import Job
from agents.job.template import main_container

_FIELDS = {  # of a Job: what users call them
    "slots": "slotsPerWorker",
    "launcher_is_worker": "runLauncherAsWorker",
    "launcher_waits": "a launcher that is created when all workers are ready",
    "worker_update": "workerUpdateStrategy",
}


def differences(before: Job, after: Job) -> list[str]:
    """Return what is another one, a phrase each."""
    lost = [_phrase(text, getattr(before, name), getattr(after, name)) for name, text in _FIELDS.items()]
    lost.append(_phrase("runPolicy.managedBy", before.policy.managed_by, after.policy.managed_by))
    found = gang(after.policy.scheduling)
    lost += [_phrase(f"schedulingPolicy.{key}", v, found.get(key)) for key, v in gang(before.policy.scheduling).items()]
    if added := _added(before.launcher.template, after.launcher.template, after.main_container):
        lost.append(f"a launcher without the workers' {', '.join(added)}: its template is made of theirs")
    return [one for one in lost if one]


def _phrase(name: str, before: object, after: object) -> str:
    if before == after:
        return ""
    shown = "" if isinstance(before, bool) else f" {json.dumps(before)}"
    return f"{name}{shown}" if before else f"no {name}"


def _added(wanted: Object, found: Object, main: str) -> list[str]:
    """Return the fields of a pod template, its pod's and its main container's, that another one has otherwise."""
    parts = [
        (wanted.get("metadata", {}), found.get("metadata", {})),
        (wanted["spec"], found["spec"]),
        (main_container(wanted, main), main_container(found, main)),
    ]
    return [
        key
        for one, other in parts
        for key in sorted({*one, *other} - {"containers"})
        if _unordered(one.get(key)) != _unordered(other.get(key))
    ]


def _unordered(value: Any) -> Any:
    """Return a value in which lists are equal that have the same objects in another order, and empty ones to none."""
    if isinstance(value, Mapping):
        return {key: _unordered(one) for key, one in value.items()} or None
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        return sorted(json.dumps(one, sort_keys=True) for one in value) or None
    return value
