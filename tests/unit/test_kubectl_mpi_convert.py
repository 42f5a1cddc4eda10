"""A converted job means the same to our operator, but for what is named as lost."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from mpijobs import ABSENT, annotated, mpijob
from test_job_goldens import NAMES, load
from test_job_t9k_goldens import NAMES as T9K_NAMES
from test_job_t9k_goldens import load as load_t9k

from agents.client.convert import converted
from agents.client.errors import ManifestError
from agents.job.model import Dialect, Job, RestartPolicy
from agents.job.read import read

Object = dict[str, Any]
# What is another job's, or the version's own.
ELSE = {"dialect", "api_version", "generation", "uid", "annotations", "launch_command", "is_being_deleted"}

JOBS: dict[str, Object] = {
    **{name: load(f"{name}.yaml") for name in NAMES},
    **{f"t9k: {name}": load_t9k(name) for name in T9K_NAMES},
    **{f"the least {version}": mpijob(version) for version in ("v1", "v2beta1", "t9k", "t9k-3")},
    "all annotations": mpijob(
        "v1",
        annotated(
            transport="ssh",
            worker_update_strategy="OnDelete",
            rbac="none",
            ranks_lost="Ignore",
            worker_agent="false",
            tools="kubectl",
            sshd_path="/opt/sshd",
            ssh_port="2022",
            ssh_key_type="ecdsa",
            ssh_passwd="image",
            mpi_implementation="Intel",
            ssh_auth_mount_path="/home/me/.ssh",
            launcher_creation_policy="WaitForWorkersReady",
            run_launcher_as_worker="true",
            main_container="mpi",
            pause="true",
        ),
    ),
    "debugged": mpijob("v2beta1", annotated(debug="true")),
    "the policy": mpijob(
        "v2beta1",
        {
            "spec/runPolicy": {
                "cleanPodPolicy": "All",
                "ttlSecondsAfterFinished": 1,
                "activeDeadlineSeconds": 2,
                "backoffLimit": 0,
                "suspend": True,
                "managedBy": "mpi-agents/operator",
                "schedulingPolicy": {
                    "minAvailable": 3,
                    "queue": "q",
                    "minResources": {"cpu": "1"},
                    "priorityClass": "p",
                    "scheduleTimeoutSeconds": 4,
                },
            }
        },
    ),
    "a GPU's launcher": mpijob(
        "v2beta1",
        {"spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/resources": {"limits": {"nvidia.com/gpu": 1}}},
    ),
}


def retries(job: Job) -> int | None:
    """How often a failed launcher is tried again; None: without limit."""
    limit = job.policy.backoff_limit
    if job.dialect is Dialect.V2BETA1:
        return 6 if limit is None else limit
    if job.launcher.restart_policy is RestartPolicy.NEVER:
        return 0
    return None if limit is None else max(limit, 1) - 1


def meaning(job: Job) -> Object:
    """All that converting keeps."""
    found = {field.name: getattr(job, field.name) for field in dataclasses.fields(Job) if field.name not in ELSE}
    return found | {"policy": dataclasses.replace(job.policy, backoff_limit=retries(job))}


def read_(resource: Object) -> Job | None:
    metadata = {"namespace": "default", "uid": "0", **resource["metadata"]}
    found = read({**resource, "metadata": metadata})
    return found if isinstance(found, Job) else None


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("version", [Dialect.V1, Dialect.V2BETA1])
def test_a_converted_job_means_the_same(name: str, version: Dialect) -> None:
    before = read_(JOBS[name])
    if before is None:  # a golden of what is wrong
        with pytest.raises(ManifestError):
            converted(JOBS[name], version)
        return
    body, lost = converted(JOBS[name], version)
    after = read_(body)
    assert after is not None, read({**body, "metadata": {"namespace": "default", "uid": "0", **body["metadata"]}})
    assert (after.dialect, after.api_version) == (version, f"kubeflow.org/{version}")
    differing = [field for field, value in meaning(before).items() if meaning(after)[field] != value]
    assert len(differing) <= len(lost), (differing, lost)
    again, lost_again = converted(body, version)
    assert again == body
    assert not lost_again


@pytest.mark.parametrize(
    ("version", "changes", "to", "lost"),
    [
        (
            "v1",
            {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "ExitCode", "spec/runPolicy": {"backoffLimit": 3}},
            Dialect.V2BETA1,
            ["restartPolicy ExitCode of the launcher"],
        ),
        ("v1", {"spec/mpiReplicaSpecs/Worker/replicas": 0}, Dialect.V2BETA1, ["a job without workers"]),
        (
            "t9k",
            {"spec/scheduler": {"t9kScheduler": {"queue": "q", "priority": 50}}},
            Dialect.V1,
            ["the priority 50 of T9k's scheduler"],
        ),
        (
            "v2beta1",
            {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "Never", "spec/runPolicy": {"backoffLimit": 2}},
            Dialect.V1,
            ["2 retries of the launcher"],
        ),
        (
            "v1",
            {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "OnFailure"},
            Dialect.V2BETA1,
            ["launchers without a limit"],
        ),
        ("v1", {}, Dialect.V2BETA1, []),
        ("v2beta1", {}, Dialect.V1, []),
    ],
)
def test_what_is_lost_is_named(version: str, changes: Object, to: Dialect, lost: list[str]) -> None:
    _, found = converted(mpijob(version, changes), to)
    assert len(found) == len(lost)
    assert all(text.startswith(begin) for text, begin in zip(found, lost, strict=True)), found


def test_annotations_and_labels_of_others_stay() -> None:
    changes = {
        "metadata/labels": {"team": "cfd"},
        "metadata/annotations": {
            "a": "b",
            "mpi-agents/dialect": "v1",
            "kubectl.kubernetes.io/last-applied-configuration": "x",
        },
    }
    body, _ = converted(mpijob("v1", changes), Dialect.V2BETA1)
    assert body["metadata"]["labels"] == {"team": "cfd"}
    assert body["metadata"]["annotations"] == {"a": "b", "mpi-agents/transport": "exec"}
    assert set(body) == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.parametrize("version", [Dialect.V1, Dialect.V2BETA1])
def test_a_name_that_the_api_server_makes_stays_one(version: Dialect) -> None:
    body, _ = converted(mpijob("v1", {"metadata/name": ABSENT, "metadata/generateName": "pi-"}), version)
    assert body["metadata"]["generateName"] == "pi-"
    assert "name" not in body["metadata"]
    with pytest.raises(ManifestError, match=r"job Pi-: metadata\.name: must be lower case"):
        converted(mpijob("v1", {"metadata/name": ABSENT, "metadata/generateName": "Pi-"}), version)


def test_a_virtual_cluster_is_no_job() -> None:
    with pytest.raises(ManifestError, match="vc is a VirtualCluster, not a job"):
        converted(mpijob("virtual"), Dialect.V1)
