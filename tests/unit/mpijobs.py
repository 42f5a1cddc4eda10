"""MPIJobs for tests: the least that each version takes, changed at the paths that a test names."""

from __future__ import annotations

from typing import Any

from agents.job.model import Job, Problem
from agents.job.read import read

Object = dict[str, Any]

ABSENT = object()


def _template() -> Object:
    return {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}


def t9k_mpijob() -> Object:
    """T9k's, of its generation 2, with two workers."""
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "default", "uid": "1-2", "generation": 1},
        "spec": {
            "worker": {
                "replicas": 2,
                "cmd": ["/pi"],
                "template": {"spec": {"containers": [{"name": "mpi-worker", "image": "example/mpi"}]}},
            }
        },
    }


def t9k_third_mpijob() -> Object:
    """T9k's, of its generation 3, with two workers."""
    template = {"spec": {"containers": [{"name": "worker", "image": "example/mpi"}]}}
    return t9k_mpijob() | {
        "spec": {
            "mpiConfig": {"script": ["/pi"]},
            "replicaSpecs": [
                {"type": "worker", "replicas": 2, "template": template},
                {"type": "launcher", "replicas": 1, "template": {}},
            ],
        }
    }


def kubeflow_mpijob(version: str) -> Object:
    """Kubeflow's, with two workers."""
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "default", "uid": "1-2", "generation": 1},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": _template()},
                "Worker": {"replicas": 2, "template": _template()},
            }
        },
    }


def virtual_cluster() -> Object:
    """A virtual cluster with two nodes."""
    return {
        "apiVersion": "mpi-agents.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": "vc", "namespace": "default", "uid": "1-2", "generation": 3},
        "spec": {"nodes": {"replicas": 2, "template": _template()}},
    }


_MADE = {"t9k": t9k_mpijob, "t9k-3": t9k_third_mpijob, "virtual": virtual_cluster}


def mpijob(version: str, changes: dict[str, Any] | None = None) -> Object:
    """A job of v1, v2beta1, t9k, t9k-3 or virtual, changed at paths of keys and indexes: `spec/worker/replicas`."""
    made = _MADE[version]() if version in _MADE else kubeflow_mpijob(version)
    for path, value in (changes or {}).items():
        *parents, last = path.split("/")
        one: Any = made
        for key in parents:
            one = one[int(key)] if isinstance(one, list) else one.setdefault(key, {})
        step: Any = int(last) if isinstance(one, list) else last
        if value is ABSENT:
            del one[step]
        else:
            one[step] = value
    return made


def read_job(resource: Object) -> Job:
    found = read(resource)
    assert isinstance(found, Job), found
    return found


def job(version: str, changes: dict[str, Any] | None = None) -> Job:
    return read_job(mpijob(version, changes))


def problems(resource: Any, served: str = "v2beta1") -> list[str]:
    found = read(resource, served=served)
    assert isinstance(found, tuple), found
    assert all(isinstance(one, Problem) for one in found)
    return [str(one) for one in found]


def annotated(**settings: str) -> dict[str, Any]:
    """The change that gives a job these of our annotations: `main_container` for `mpi-agents/main-container`."""
    named = {f"mpi-agents/{key.replace('_', '-')}": value for key, value in settings.items()}
    return {"metadata/annotations": named}
