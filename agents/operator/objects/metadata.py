"""Labels, owners and annotations of what is made for a job."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from agents.job.model import LAUNCHER, Dialect
from agents.job.settings import shared
from agents.operator.kinds import BATCH_JOB, POD
from agents.operator.objects import names

if TYPE_CHECKING:
    from agents.job.model import Job, Role
    from agents.operator.kinds import Kind
    from agents.operator.settings import PodSettings

_TRAINING, _T9K = "training.kubeflow.org/", "tensorstack.dev/"
_HASH_SIZE = 16


def new(kind: Kind, job: Job, name: str, settings: PodSettings) -> dict[str, Any]:
    """Return an object of a job, with what all of them have: tools find it by `app`, we by the job's uid."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {"app": job.name, names.JOB_UID: job.uid},
            "ownerReferences": [owner(kind, job, settings)],
        },
    }


def owner(kind: Kind, job: Job, settings: PodSettings) -> dict[str, Any]:
    """Return the reference by which what is made goes when the job goes.

    By another version than the one it watches, the group's preferred one, a reference costs the garbage collector two
    requests (kubernetes, garbagecollector/graph_builder.go). Kueue knows the pods of v2beta1's jobs by v2beta1.
    """
    is_kueues = job.dialect is Dialect.V2BETA1 and kind in {POD, BATCH_JOB}
    is_kubeflows = job.dialect is not Dialect.T9K
    return {
        "apiVersion": (is_kubeflows and not is_kueues and settings.owner_version) or job.api_version,
        "kind": "MPIJob",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_labels(job: Job, role: str, index: int | None = None) -> dict[str, str]:
    """Return what a pod of a role is labelled with; `index` is a worker's.

    v1 has what mpi-operator v0.3.0 and training-operator v1.9.3 set, v2beta1 what mpi-operator v0.8.2 does. T9k's are
    by analogy with its GenericJob's (tasks/use-podgroup.md): its MPIJob's own are not published.
    """
    own = {names.JOB_UID: job.uid, names.ROLE: role}
    if job.dialect is Dialect.T9K:
        pod = job.launcher_name if index is None else job.worker_name(index)
        component = {f"{_T9K}component": "mpijob", f"{_T9K}component-type": "user"}
        return {"mpijob": job.name, "mpijob-replica": pod, **component, **own}
    labels = {f"{_TRAINING}job-name": job.name, **own}
    if job.dialect is Dialect.V1:
        labels |= {
            "group-name": "kubeflow.org",
            "mpi-job-name": job.name,
            "mpi-job-role": role,
            f"{_TRAINING}operator-name": "mpijob-controller",
            f"{_TRAINING}replica-type": role,
        }
        if role == LAUNCHER:
            labels[f"{_TRAINING}job-role"] = "master"
    else:
        labels |= {f"{_TRAINING}operator-name": "mpi-operator", f"{_TRAINING}job-role": role}
        if job.launcher_is_worker:  # all pods of a group have an index of their own: Kueue counts on it
            index = 0 if index is None else index + 1
    return labels if index is None else labels | {f"{_TRAINING}replica-index": str(index)}


def made_from(job: Job, role: Role) -> dict[str, str]:
    """Return the annotations by which a pod of a role tells how it was made."""
    settings = shared(job)
    written = {names.SETTINGS: json.dumps(settings, sort_keys=True, separators=(",", ":"))} if settings else {}
    return {names.TEMPLATE: template_hash(role), **written}


def template_hash(role: Role) -> str:
    """Return what tells a role's templates apart. What we add to pods is not in it: a new operator rolls no workers."""
    content = json.dumps([role.restart_policy, role.template], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:_HASH_SIZE]
