"""Pinned settings: while a job has pods, it keeps the shared settings that they were created with.

The definition's rules keep transport and dialect in the spec as they are. Annotations are any user's to change, at any
time, and so are the further shared settings: a worker that comes back would be no host for the launcher that runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agents.job.json_object import Object, mapping, mappings, part
from agents.job.model import KUBEFLOW, LAUNCHER, Dialect, Job, Problem, Transport, annotation, is_t9k, is_virtual
from agents.job.read import read
from agents.job.template import container_names
from agents.operator.objects import names
from agents.operator.planning.view import Observed

_CHOICES = {"transport": tuple(Transport), "dialect": KUBEFLOW}
_DIALECTS = {"mpijob-controller": Dialect.V1, "mpi-operator": Dialect.V2BETA1}
_OPERATOR = "training.kubeflow.org/operator-name"  # label of kubeflow's pods


def pin(job: Job | tuple[Problem, ...], observed: Observed) -> tuple[Job | tuple[Problem, ...], Mapping[str, str]]:
    """Return the job with the settings of its pods, and those that differ from its spec: setting → value."""
    job, differing = _pin_transport_and_dialect(job, observed)
    if not isinstance(job, Job):
        return job, differing
    wanted = names.shared(job)
    differ = {key: value for key, value in _written(observed).items() if wanted.get(key, value) != value}
    known = container_names(job.worker.template)
    if known and differ.get("mainContainer", known[0]) not in known:
        del differ["mainContainer"]  # gone from the template: pinned, ranks would run in the first of the others
    try:
        return names.with_shared(job, differ), {**differing, **differ}
    except ValueError:  # someone else has written it
        return job, differing


def _pin_transport_and_dialect(
    job: Job | tuple[Problem, ...], observed: Observed
) -> tuple[Job | tuple[Problem, ...], Mapping[str, str]]:
    """Pin transport and dialect, by which all else is read."""
    made = made_with(observed)
    metadata = part(observed.resource, "metadata")
    annotations = part(metadata, "annotations")
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
    """Return the transport and dialect of the job's pods, or of its launcher's batch Job."""
    resource = observed.resource
    secret = f"{mapping(resource.get('metadata')).get('name', '')}-ssh"
    specs = (part(one, "spec") for one in _made(observed))
    transports = (_transport(part(spec, "template", "spec") or spec, secret) for spec in specs)
    found: dict[str, Transport | Dialect | None] = {"transport": next(filter(None, transports), None)}
    if not (is_t9k(resource) or is_virtual(resource)):
        labelled = (_DIALECTS.get(str(_labels(one).get(_OPERATOR))) for one in _made(observed))
        found["dialect"] = Dialect.V2BETA1 if _batch_job(observed) else next(filter(None, labelled), None)
    return {key: str(value) for key, value in found.items() if value is not None}


def _made(observed: Observed) -> Iterator[Object]:
    """Give the launcher's batch Job, its pods and the workers: where they differ, the first of them says."""
    if job := _batch_job(observed):
        yield job
    for is_first in (True, False):
        yield from (pod for pod in observed.pods if (_labels(pod).get(names.ROLE) == LAUNCHER) is is_first)


def _batch_job(observed: Observed) -> Object | None:
    """Return the launcher's batch Job; of one that is being deleted its pods are what is left."""
    job = observed.launcher_job
    return None if job is None or "deletionTimestamp" in part(job, "metadata") else job


def _transport(spec: Object, secret: str) -> Transport | None:
    """Return the transport of a pod, by its volumes: keys for SSH, else the agent's configuration."""
    volumes = {str(one.get("name")): one for one in mappings(spec.get("volumes"))}
    if any(
        name.startswith(names.SSH_KEYS_VOLUME) and part(one, "secret").get("secretName") == secret
        for name, one in volumes.items()
    ):
        return Transport.SSH
    return Transport.EXEC if any(name.startswith(names.CONFIG_VOLUME) for name in volumes) else None


def _written(observed: Observed) -> dict[str, str]:
    """Return the shared settings as they are written on the launcher, or without one on the first worker.

    Without them nothing is pinned: settings of a later worker would be applied to the launcher.
    """
    texts = (part(one, "metadata", "annotations").get(names.SETTINGS) for one in _made(observed))
    text = next(texts, None) or "{}"
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError):  # anyone who may edit pods may write it
        return {}
    return {key: value for key, value in mapping(found).items() if isinstance(value, str)}


def _labels(pod: Object) -> Mapping[str, object]:
    return part(pod, "metadata", "labels")
