"""The API server takes every object that is made of a job, where Pod Security *restricted* and a quota are enforced.

By dry runs: no operator, and no pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agents.job.model import Job
from agents.job.read import read
from agents.operator import objects
from agents.operator.settings import PodSettings
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Namespace

Object = dict[str, Any]

_DRY = {"dryRun": "All", "fieldValidation": "Strict"}
_LIMITS = {"cpu": "1", "memory": "64Mi"}
_QUOTA = {"requests.cpu": "9", "requests.memory": "9Gi", "limits.cpu": "9", "limits.memory": "9Gi"}


def read_in(namespace: Namespace, job: MpiJob) -> Job:
    about = {"namespace": namespace.name, "uid": "8d7a2c1e-0000-4000-8000-000000000001", **job.body["metadata"]}
    found = read({**job.body, "metadata": about})
    assert isinstance(found, Job), found
    return found


def made_of(job: Job) -> Iterator[Object]:
    settings = PodSettings(image="mpi-agents:1", image_pull_secrets=("registry",))
    hosts = range(job.worker.replicas)
    made = (
        objects.service_account(job, settings),
        objects.config_map(job, settings, hosts),
        objects.service(job, settings),
        objects.role(job, settings, hosts),
        objects.role_binding(job, settings),
        objects.launcher(job, settings),
        *(objects.worker(job, index, settings) for index in hosts),
    )
    return (one for one in made if one is not None)


def dry_run(namespace: Namespace, made: Iterator[Object]) -> Iterator[Object]:
    """What the API server would store. Pods need their ServiceAccount: that one is created."""
    for one in made:
        if one["kind"] == "ServiceAccount":
            del one["metadata"]["ownerReferences"]
            namespace.apply([one])
        else:
            path = namespace.path(one["kind"], api_version=one["apiVersion"])
            yield dict(namespace.api.call("post", path, one, query=_DRY))


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("name", ["pi", "4pi", "a.b", "4" + "a" * 24 + "." + "b" * 27])
def test_objects_are_taken(namespace: Namespace, version: str, name: str) -> None:
    namespace.apply(
        [{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": _QUOTA}}]
    )
    job = MpiJob(version, name=name)
    for pod in (job.launcher, job.worker):
        pod["containers"][0]["resources"] = {"limits": _LIMITS}
    taken = list(dry_run(namespace, made_of(read_in(namespace, job))))
    assert [one["kind"] for one in taken if one["kind"] in ("Pod", "Job")][1:] == ["Pod", "Pod"]
    # Guaranteed as the user's containers are; what a batch Job makes of its template is the same.
    classes = {one["status"]["qosClass"] for one in taken if one["kind"] == "Pod"}
    assert classes == {"Guaranteed"}


def test_our_names_in_the_users_template_are_taken(namespace: Namespace) -> None:
    job = MpiJob("v1")
    job.launcher["volumes"] = [{"name": one, "emptyDir": {}} for one in ("mpi-job-config", "mpi-agents-run")]
    job.launcher["containers"][0]["volumeMounts"] = [{"name": "mpi-job-config", "mountPath": "/opt/kube/"}]
    job.launcher["containers"][0]["name"] = "hub"
    assert len(list(dry_run(namespace, made_of(read_in(namespace, job))))) == 7
