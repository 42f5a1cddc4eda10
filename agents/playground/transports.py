"""Jobs by ssh, in a cluster whose pods share one machine's addresses and its sshd: they run by exec. Pure."""

from __future__ import annotations

from typing import Any

from agents.job.model import PREFIX, Job, Transport
from agents.job.read import read

Object = dict[str, Any]

_DRAFT = {"namespace": "default", "uid": "draft"}  # what an MPIJob has once it is made


def by_exec(body: Object) -> Object | None:
    """Return the manifest of an MPIJob by ssh as one by exec; None for what is no such MPIJob, or none at all."""
    given = body.get("metadata")
    metadata: Object = given if isinstance(given, dict) else {}
    if body.get("kind") != "MPIJob":
        return None
    job = read({**body, "metadata": {**metadata, **_DRAFT}}, served=str(body.get("apiVersion")).rpartition("/")[2])
    if not isinstance(job, Job) or job.transport is not Transport.SSH:
        return None
    annotations = {**(metadata.get("annotations") or {}), f"{PREFIX}transport": str(Transport.EXEC)}
    return {**body, "metadata": {**metadata, "annotations": annotations}}
