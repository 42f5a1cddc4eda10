"""Manifests as `mpi-playground apply` takes them, and as they can run on one machine."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from agents.job.model import Implementation, Job
from agents.playground import documents
from agents.playground.apply import apply
from agents.playground.documents import adapted
from agents.playground.launchers import DEFAULTS, LAUNCHERS

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
CONTAINERS = {"spec": {"containers": [{"name": "mpi-worker", "image": "any"}]}}


def job_of(body: dict[str, Any]) -> Job:
    found = documents.job_of(body)
    assert isinstance(found, Job), found
    return found


def kubeflows(api_version: str, spec: dict[str, Any]) -> dict[str, Any]:
    role = {"replicas": 1, "template": {"spec": {"containers": [{"name": "mpi", "image": "any"}]}}}
    metadata = {"name": "pi", "annotations": {"mine": "kept"}}
    body = {"apiVersion": api_version, "kind": "MPIJob", "metadata": metadata}
    return body | {"spec": {"mpiReplicaSpecs": {"Launcher": role, "Worker": role}, **spec}}


def t9ks(spec: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob", "metadata": {"name": "pi"}}
    return body | {"spec": {"transport": "exec", **spec}}


@pytest.mark.parametrize(
    ("api_version", "spec", "changes"),
    [
        ("kubeflow.org/v2beta1", {}, True),
        ("kubeflow.org/v1", {}, False),
        ("kubeflow.org/v1", {"transport": "ssh"}, True),
        ("kubeflow.org/v2beta1", {"transport": "exec"}, False),
        ("kubeflow.org/v1", {"mpiReplicaSpecs": 7}, False),  # the operator says what is wrong
        ("kubeflow.org/v1", {"mpiConfig": "a field of T9k's, which kubeflow's jobs do not have"}, False),
    ],
)
def test_what_would_run_by_ssh_runs_by_exec(api_version: str, spec: dict[str, Any], changes: bool) -> None:
    body = kubeflows(api_version, spec)
    changed, lines = adapted(body)
    assert bool(lines) is changes
    assert (changed is not body) is changes
    if changes:
        assert changed["metadata"]["annotations"] == {"mine": "kept", "mpi-agents/transport": "exec"}
        assert adapted(changed) == (changed, [])
    assert body["metadata"]["annotations"] == {"mine": "kept"}


SECOND = {"worker": {"cmd": ["pi"], "template": CONTAINERS}}
THIRD = {"replicaSpecs": [{"type": "worker", "template": CONTAINERS}]}
OWN = {"spec": {"containers": [{"name": "mpi-worker", "command": ["mine"]}]}}


@pytest.mark.parametrize(
    "spec",
    [
        {**SECOND, "mpiHome": "/usr/lib/openmpi/"},
        {**THIRD, "mpiConfig": {"script": ["pi"], "home": "/usr/lib/openmpi"}},
    ],
)
def test_a_home_of_mpi_in_an_image_is_the_pods_own_mpi(spec: dict[str, Any]) -> None:
    before = job_of(t9ks(spec))
    assert before.launch_command[:2] == ("/usr/lib/openmpi/bin/mpirun", "--prefix")
    changed, lines = adapted(t9ks(spec))
    assert [line.rpartition(": ")[2] for line in lines] == ["none is at /usr/lib/openmpi/bin/mpirun"]
    after = job_of(changed)
    assert after.launch_command == ("mpirun", "--hostfile", "/etc/mpi/hostfile", "pi")


@pytest.mark.parametrize(
    "spec",
    [
        SECOND,
        {**THIRD, "mpiConfig": {"script": ["pi"]}},
        # The launcher's own command goes before the line that the home is of.
        {
            "replicaSpecs": [*THIRD["replicaSpecs"], {"type": "launcher", "template": OWN}],
            "mpiConfig": {"script": ["pi"], "home": "/usr"},
        },
    ],
)
def test_other_jobs_of_t9k_are_as_they_were(spec: dict[str, Any]) -> None:
    job_of(t9ks(spec))
    assert adapted(t9ks(spec)) == (t9ks(spec), [])


@pytest.mark.parametrize("body", [{"kind": "ConfigMap"}, {"kind": "MPIJob", "metadata": 7}, {}])
def test_other_manifests_are_left_alone(body: dict[str, Any]) -> None:
    assert adapted(body) == (body, [])


def test_jobs_of_one_name_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text(json.dumps(kubeflows("kubeflow.org/v1", {})))
    other.write_text(json.dumps(t9ks(SECOND)))
    with pytest.raises(documents.DocumentError, match="2 jobs are called default/pi: apply one at a time"):
        apply(documents.read([str(one), str(other)]), None, folder=str(tmp_path / "cluster"))
    assert not (tmp_path / "cluster").exists()


def test_a_launcher_of_another_mpi_than_the_jobs_is_refused() -> None:
    with pytest.raises(documents.DocumentError, match="job pi is made for OpenMPI, not for mpich"):
        apply([("x", t9ks(SECOND))], LAUNCHERS["mpich"])


def test_each_implementation_has_a_launcher_that_runs_its_jobs() -> None:
    assert {name: LAUNCHERS[DEFAULTS[name]].implementation for name in DEFAULTS} == {
        str(one): str(one) for one in Implementation
    }


def test_all_examples_of_mpijobs_can_be_run() -> None:
    for folder in ("kubeflow", "t9k"):
        for name in os.listdir(os.path.join(EXAMPLES, folder)):
            ((_file, body),) = documents.read([os.path.join(EXAMPLES, folder, name)])
            job = job_of(adapted(body)[0])
            assert job.transport == "exec"
            assert not any(word.startswith("/usr") for word in job.launch_command)
