"""Whatever stands where an MPIJob is expected is a job or has problems, and a problem's path leads to what is wrong."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from mpijobs import mpijob
from test_job_goldens import NAMES, T9KS, load, load_t9k

from agents.job.model import Job
from agents.job.read import dialect_of, is_managed_elsewhere, read
from agents.job.run_mode import effective

VIRTUAL = mpijob(
    "virtual",
    {
        "spec/login/template": {"spec": {"containers": [{"name": "shell", "image": "a"}]}},
        "spec/dvm": {"enabled": True, "args": ["--a"]},
        "spec/sharedMemory": "2Gi",
        "spec/transport": "ssh",
        "spec/application": {"containers": [{"name": "app", "image": "a"}], "wrap": "always"},
        "spec/nodes/template/spec/containers/0/securityContext": {"capabilities": {"drop": ["ALL"]}},
    },
)
GOLDENS = [*(load(f"{name}.yaml") for name in NAMES), *map(load_t9k, T9KS), VIRTUAL, mpijob("virtual")]
KEYS = st.sampled_from(
    [
        *("apiVersion", "metadata", "spec", "status", "name", "uid", "labels", "annotations", "managedFields", "a"),
        *("mpiReplicaSpecs", "Launcher", "Worker", "replicas", "restartPolicy", "template", "containers"),
        *("env", "limits"),
        *("runPolicy", "cleanPodPolicy", "suspend", "schedulingPolicy", "minResources", "slotsPerWorker", "dialect"),
        *("volumes", "volumeMounts", "resources", "command", "mpi-agents/rbac", "mpi-agents/dialect"),
        *("worker", "cmd", "extraMPIArgs", "mca", "mpiHome", "mpiConfig", "script", "replicaSpecs", "type", "ssh"),
        *("runMode", "debug", "pause", "enabled", "enable", "resumeSpecs", "args", "mpi-agents/debug", "port"),
        *("scheduler", "t9kScheduler", "queue", "cleanUpWorkers", "limit", "initContainers", "requests"),
        *("nodes", "login", "dvm", "sharedMemory", "mountPath", "mainContainer"),
        *("application", "wrap", "securityContext", "capabilities", "drop", "runAsGroup"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["v1", "v2beta1", "exec", "worker", "launcher", "Never", "ExitCode", "None", "true", "1Gi", "x" * 300]
    ),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")

Path = tuple[Any, ...]


def places(value: Any, path: Path = ()) -> list[Path]:
    """The paths of all that a value holds."""
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    return [found for key, one in entries for found in ((*path, key), *places(one, (*path, key)))]


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A good job with other values here and there, and keys that weren't there."""
    made = copy.deepcopy(draw(st.sampled_from(GOLDENS)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(made)))
        parent = at(made, path[:-1])
        parent[path[-1]] = draw(VALUES)
        if isinstance(parent, dict):
            parent.setdefault(draw(KEYS), draw(VALUES))
    return made


def leads_into(path: str, value: Any) -> bool:
    """Whether each step of a problem's path is a key that is there, or the first of those that are missing."""
    for name, key in STEP.findall(path):
        if value is None:
            return True
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict):
            value = value.get(name or key)
        else:
            return False
    return True


def check(resource: Any) -> None:
    found = read(resource)
    if isinstance(found, Job):
        for is_resumed in (False, True):
            assert isinstance(effective(found, is_resumed=is_resumed), Job)
        assert json.loads(json.dumps(dataclasses.asdict(found)))
        assert found.dialect is dialect_of(resource, "v2beta1")
        return
    assert found
    assert len(set(found)) == len(found)
    for problem in found:
        assert leads_into(problem.path, resource), problem
        assert problem.message
        assert len(str(problem)) < 1000


@given(VALUES)
def test_any_value(value: Any) -> None:
    check(value)


@given(VALUES, VALUES, VALUES)
def test_any_parts(metadata: Any, spec: Any, roles: Any) -> None:
    check({"metadata": metadata, "spec": spec})
    check({"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": {"mpiReplicaSpecs": roles}})
    check({"apiVersion": "batch.tensorstack.dev/v1beta1", "metadata": metadata, "spec": spec})
    check({"apiVersion": "batch.tensorstack.dev/v1beta1", "spec": {"worker": spec, "replicaSpecs": roles}})


@given(spoiled())
def test_spoiled_jobs(resource: Any) -> None:
    check(resource)
    is_managed_elsewhere(resource)


@given(st.data())
def test_null_is_absent(data: st.DataObject) -> None:
    given_job = copy.deepcopy(data.draw(st.sampled_from(GOLDENS)))
    before = read(given_job)
    objects = [path for path in places(given_job) if isinstance(at(given_job, path), dict)]
    for path in data.draw(st.lists(st.sampled_from(objects), max_size=8)):
        at(given_job, path).setdefault(data.draw(KEYS), None)
    assert read(given_job) == before


@given(spoiled())
def test_reading_changes_nothing(resource: Any) -> None:
    before = copy.deepcopy(resource)
    read(resource)
    assert repr(resource) == repr(before)  # NaN is not equal to itself
