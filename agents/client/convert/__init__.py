"""Converts jobs: between the versions of kubeflow's API and T9k's, to Kubeflow Trainer's, and from Slurm. Pure.

What the job means, defaults included, is read by our operator's reader and written explicitly, so that it means the
same to our operator. What the other API can't express is named.
"""

from __future__ import annotations

from enum import StrEnum

from agents.client import manifests
from agents.client.convert.common import Converted, given
from agents.client.convert.differences import differences
from agents.client.convert.kubeflow import to_kubeflow
from agents.client.convert.slurm.sbatch import sbatch_jobs
from agents.client.convert.t9k import to_t9k
from agents.client.convert.trainjob import to_trainjob
from agents.client.errors import ManifestError
from agents.job.json_object import Body, Object, part
from agents.job.model import GROUP, LAST_APPLIED, MPI_JOB, PREFIX, Dialect, Implementation, Job
from agents.job.read import read
from agents.job.t9k import API_VERSION as T9K

__all__ = ["Converted", "Target", "converted", "from_sbatch"]


class Target(StrEnum):
    """What a job can be made to."""

    V1 = "v1"
    V2BETA1 = "v2beta1"
    T9K = "t9k"
    TRAINJOB = "trainjob"


_API_VERSIONS = {Target.V1: f"{GROUP}/v1", Target.V2BETA1: f"{GROUP}/v2beta1", Target.T9K: T9K}


def converted(resource: Object, to: Target) -> Converted:
    """Return the job in another API, and what is lost. Raises ManifestError."""
    metadata = part(resource, "metadata")
    if (kind := resource.get("kind")) != MPI_JOB:
        raise ManifestError(f"{metadata.get('name')} is a {kind}, not a job")
    job = _read(resource, "job {}: {}")
    annotations = part(metadata, "annotations")
    kept = {key: annotations[key] for key in annotations if not key.startswith((PREFIX, LAST_APPLIED))}
    named = {key: metadata[key] for key in ("name", "generateName", "namespace", "labels") if metadata.get(key)}
    if to is Target.TRAINJOB:
        found, lost = to_trainjob(job, named | given({"annotations": kept}))
        return Converted(job.name, found, tuple(lost))
    form = to_t9k(job) if to is Target.T9K else to_kubeflow(job, Dialect(to))
    body: Body = {
        "apiVersion": _API_VERSIONS[to],
        "kind": MPI_JOB,
        "metadata": named | given({"annotations": kept | form.annotations}),
        "spec": form.spec,
    }
    after = _read(body, f"job {{}} can't be one of {to}: {{}}")
    return Converted(job.name, (body,), (*form.lost, *differences(form.job, after)))


def from_sbatch(text: str, file: str, image: str, implementation: Implementation, to: Target = Target.V1) -> Converted:
    """Return the jobs of a batch script of Slurm, and what is lost. `file`: its name. Raises ManifestError."""
    made = sbatch_jobs(text, file, image, implementation)
    jobs = [converted(one, to) for one in made.manifests]
    lost = dict.fromkeys((*made.lost, *(line for job in jobs for line in job.lost)))
    return Converted(made.name, tuple(body for job in jobs for body in job.manifests), tuple(lost))


def _read(resource: Object, refusal: str) -> Job:
    """Return what our operator makes of a manifest. `refusal`: of a name and what is wrong."""
    metadata = part(resource, "metadata")
    job = read({**resource, "metadata": {"uid": "0", "namespace": "default", **manifests.named(metadata)}})
    if isinstance(job, tuple):
        name = metadata.get("name") or metadata.get("generateName") or ""
        raise ManifestError(refusal.format(name, "; ".join(map(str, job[:3]))))
    return job
