"""Transport and dialect are a whole job's: while it has pods, it keeps those that they were made with.

The definition's rules keep the fields of the spec as they are. Annotations are any user's to change, at any time: a
worker that comes back would be no host for the launcher that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.dialects import is_t9k
from agents.job.model import KUBEFLOW, LAUNCHER, Dialect, Job, Transport
from agents.job.read import read
from agents.job.settings import annotation
from agents.operator.objects import names
from agents.operator.planning.values import mapping, mappings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.model import Object, Problem
    from agents.operator.observed import Observed

_CHOICES = {"transport": tuple(Transport), "dialect": KUBEFLOW}
_DIALECTS = {"mpijob-controller": Dialect.V1, "mpi-operator": Dialect.V2BETA1}
_OPERATOR = "training.kubeflow.org/operator-name"  # label of kubeflow's pods


def hold(job: Job | tuple[Problem, ...], observed: Observed) -> tuple[Job | tuple[Problem, ...], Mapping[str, str]]:
    """Return the job as its pods were made, and what of it is kept against the job's wish: setting → value."""
    made = made_with(observed)
    metadata = mapping(observed.resource.get("metadata"))
    annotations = mapping(metadata.get("annotations"))
    given = {key: annotations.get(annotation(key)) or made[key] for key in made}
    differ = {key: made[key] for key in made if given[key] != made[key]}
    if isinstance(job, Job):
        differ = differ or {key: value for key, value in made.items() if str(getattr(job, key)) != value}
    if not differ or any(given[key] not in _CHOICES[key] for key in made):
        return job, {}
    pinned = {**annotations, **{annotation(key): value for key, value in made.items()}}
    found = read({**observed.resource, "metadata": {**metadata, "annotations": pinned}})
    return (found, differ) if isinstance(found, Job) or isinstance(job, Job) else (job, {})


def made_with(observed: Observed) -> dict[str, str]:
    """Return what the job's pods, or its launcher's batch Job, were made with; where they differ, the launcher says."""
    job, resource = observed.launcher_job, observed.resource
    if job is not None and "deletionTimestamp" in mapping(job.get("metadata")):
        job = None  # its pods are what is left of it
    name = str(mapping(resource.get("metadata")).get("name", ""))
    pods = sorted(observed.pods, key=lambda pod: _labels(pod).get(names.ROLE) != LAUNCHER)
    specs = [mapping(pod.get("spec")) for pod in pods]
    if job is not None:
        specs.insert(0, mapping(mapping(mapping(job.get("spec")).get("template")).get("spec")))
    found: dict[str, Transport | Dialect | None] = {
        "transport": next((one for spec in specs if (one := _transport(spec, f"{name}-ssh"))), None)
    }
    if not is_t9k(resource):
        labelled = (_DIALECTS.get(str(_labels(pod).get(_OPERATOR))) for pod in pods)
        found["dialect"] = Dialect.V2BETA1 if job is not None else next(filter(None, labelled), None)
    return {key: str(value) for key, value in found.items() if value is not None}


def _transport(spec: Object, secret: str) -> Transport | None:
    """Return the transport of a pod, by the volumes that it was given: keys by ssh, else the agent's configuration."""
    volumes = {str(one.get("name")): one for one in mappings(spec.get("volumes"))}
    if any(
        name.startswith(names.SSH_KEYS_VOLUME) and mapping(one.get("secret")).get("secretName") == secret
        for name, one in volumes.items()
    ):
        return Transport.SSH
    return Transport.EXEC if any(name.startswith(names.CONFIG_VOLUME) for name in volumes) else None


def _labels(pod: Object) -> Mapping[str, object]:
    return mapping(mapping(pod.get("metadata")).get("labels"))
