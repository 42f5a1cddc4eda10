"""MPIJobs as they can run in a cluster of one machine, whose pods have its programs and no images. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from agents.job.model import PREFIX, Dialect, Job, Transport

from .documents import is_job, job_of

Object = dict[str, Any]


class Adapted(NamedTuple):
    """A manifest, and what is said of how it differs from the one that was given: a line each."""

    body: Object
    lines: tuple[str, ...] = ()


def adapted(body: Object) -> Adapted:
    """Return a manifest as it can be applied here. What the operator has to refuse is left to it."""
    job = job_of(body) if is_job(body) else None
    if not isinstance(job, Job):
        return Adapted(body)
    lines = []
    if job.transport is Transport.SSH:
        annotations = {**(body["metadata"].get("annotations") or {}), f"{PREFIX}transport": str(Transport.EXEC)}
        body = {**body, "metadata": {**body["metadata"], "annotations": annotations}}
        lines.append(f"job {job.name} runs by exec here: one machine, without an sshd in each pod (transport: ssh)")
    home = _home(body["spec"]) if job.dialect is Dialect.T9K else ""
    mpirun = f"{home.rstrip('/')}/bin/mpirun"
    if home and job.launch_command[:1] == (mpirun,):
        body = {**body, "spec": _without_home(body["spec"])}
        lines.append(f"job {job.name} runs its pods' own mpirun here, as they have no images: none is at {mpirun}")
    return Adapted(body, tuple(lines))


def _home(spec: Object) -> str:
    """Return where a T9k job's image has Open MPI, by either generation's field; "" if it does not say."""
    return str(spec.get("mpiHome") or (spec.get("mpiConfig") or {}).get("home") or "")


def _without_home(spec: Object) -> Object:
    spec = {key: value for key, value in spec.items() if key != "mpiHome"}
    if spec.get("mpiConfig"):
        spec["mpiConfig"] = {key: value for key, value in spec["mpiConfig"].items() if key != "home"}
    return spec
