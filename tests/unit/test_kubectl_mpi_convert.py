"""A converted job means the same to our operator, except what is named as lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpijobs import ABSENT, annotated, mpijob
from test_job_definition import KUBEFLOW, OURS
from test_job_goldens import NAMES, T9KS, load, load_t9k

from agents.client.convert import Target
from agents.client.convert import converted as convert
from agents.client.errors import ManifestError
from agents.job.model import Dialect, Implementation, Job, RestartPolicy, Role
from agents.job.read import read
from agents.job.template import main_container
from agents.playground.definitions import problems, schemas, unknown

Object = dict[str, Any]
# What is another job's, or the version's own.
ELSE = {"dialect", "api_version", "generation", "uid", "annotations", "launch_command", "is_being_deleted"}

JOBS: dict[str, Object] = {
    **{name: load(f"{name}.yaml") for name in NAMES},
    **{f"t9k: {name}": load_t9k(name) for name in T9KS},
    **{f"the least {version}": mpijob(version) for version in ("v1", "v2beta1", "t9k", "t9k-3")},
    "all annotations": mpijob(
        "v1",
        annotated(
            transport="ssh",
            worker_update_strategy="OnDelete",
            rbac="none",
            ranks_lost="Ignore",
            worker_agent="false",
            tag_output="true",
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


def converted(resource: Object, to: str) -> tuple[Object, tuple[str, ...]]:
    found = convert(resource, Target(to))
    [body] = found.manifests
    return body, found.lost


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
    scheduling = dataclasses.replace(job.policy.scheduling, priority=job.policy.scheduling.priority or None)
    policy = dataclasses.replace(job.policy, backoff_limit=retries(job), scheduling=scheduling)
    roles = {"launcher": alike(job.launcher, job.main_container), "worker": alike(job.worker, job.main_container)}
    main = main_container(job.worker.template, job.main_container)["name"] if job.worker.template else ""
    return found | roles | {"policy": policy, "main_container": main}


LINES = (["--hostfile", "/etc/mpi/hostfile"], ["--prefix", "/opt/ompi"])  # what T9k writes into mpirun's line


def alike(role: Role, main: str) -> Role:
    """The role with its main container under one name and its command in one form."""
    if not role.template:
        return role
    chosen = main_container(role.template, main)
    words = [*chosen.get("command", ()), *chosen.get("args", ())]
    while words[:1] and words[0].endswith("mpirun") and words[1:3] in LINES:
        del words[1:3]
    changed = {key: value for key, value in chosen.items() if key not in ("command", "args")}
    changed |= {"name": "main", "words": words}
    spec = role.template["spec"]
    containers = [changed if one is chosen else one for one in spec["containers"]]
    return dataclasses.replace(role, template={**role.template, "spec": {**spec, "containers": containers}})


def read_(resource: Object) -> Job | None:
    metadata = {"namespace": "default", "uid": "0", **resource["metadata"]}
    found = read({**resource, "metadata": metadata})
    return found if isinstance(found, Job) else None


# By a field of a Job, what says that it is lost.
NAMED = {
    "launcher": ("launcher",),
    "worker": ("of the workers", "without workers", "container that ranks run in"),
    "policy": ("retries", "priority", "Policy"),
    "slots": ("slotsPerWorker",),
    "main_container": ("container that ranks run in",),
    "launcher_is_worker": ("runLauncherAsWorker", "without workers"),
    "launcher_waits": ("created when all workers",),
    "worker_update": ("workerUpdateStrategy",),
}


def unnamed(before: Job, after: Job, lost: Iterable[str]) -> list[str]:
    """What differs and is not named."""
    text = "\n".join(lost)
    differing = [field for field, value in meaning(before).items() if meaning(after)[field] != value]
    return [field for field in differing if not any(words in text for words in NAMED.get(field, ()))]


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("to", ["v1", "v2beta1", "t9k"])
def test_a_converted_job_means_the_same(name: str, to: str) -> None:
    before = read_(JOBS[name])
    if before is None or not can_be(before, to):
        with pytest.raises(ManifestError):
            converted(JOBS[name], to)
        return
    body, lost = converted(JOBS[name], to)
    after = read_(body)
    assert after is not None, read({**body, "metadata": {"namespace": "default", "uid": "0", **body["metadata"]}})
    assert (after.dialect, after.api_version) == (to, body["apiVersion"])
    assert unnamed(before, after, lost) == []
    schema = schemas()[(*body["apiVersion"].split("/"), "MPIJob")]
    assert (unknown(schema, body), problems(schema, body)) == ([], [])
    again, lost_again = converted(body, to)
    assert not lost_again
    second = read_(again)
    assert second is not None
    assert meaning(second) == meaning(after)


def can_be(job: Job, to: str) -> bool:
    """Whether it can be converted."""
    command = job.launcher.template["spec"]["containers"][0].get("command")
    is_run = command is not None or job.debug is not None
    return to != "t9k" or (job.implementation is Implementation.OPEN_MPI and job.worker.replicas > 0 and is_run)


CHANGES: list[Object] = [
    {"spec/slotsPerWorker": 4},
    {"spec/mpiReplicaSpecs/Worker/replicas": 3},
    {"spec/mpiReplicaSpecs/Worker/restartPolicy": "OnFailure"},
    {"spec/mpiReplicaSpecs/Worker/restartPolicy": "ExitCode"},
    {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "OnFailure"},
    {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "Always"},
    {"spec/runPolicy/backoffLimit": 0},
    {"spec/runPolicy/backoffLimit": 3},
    {"spec/runPolicy/cleanPodPolicy": "All"},
    {"spec/runPolicy/cleanPodPolicy": "Running"},
    {"spec/runPolicy/suspend": True},
    {"spec/runPolicy/managedBy": "mpi-agents/operator"},
    {"spec/runPolicy/ttlSecondsAfterFinished": 60},
    {"spec/runPolicy/schedulingPolicy": {"queue": "q", "minAvailable": 2}},
    {"spec/runPolicy/schedulingPolicy": {"priorityClass": "high", "scheduleTimeoutSeconds": 9}},
    {"spec/mainContainer": "mpi"},
    {"spec/sshAuthMountPath": "/home/me/.ssh"},
    {"spec/launcherCreationPolicy": "WaitForWorkersReady"},
    {"spec/runLauncherAsWorker": True},
    {"spec/transport": "ssh"},
    {"spec/ssh": {"sshdPath": "/opt/sshd", "port": 2222, "keyType": "ecdsa"}},
    {"spec/workerUpdateStrategy": "OnDelete"},
    {"spec/tools": []},
    {"spec/tagOutput": True},
    {"spec/ranksLost": "Ignore"},
    {"spec/rbac": "none"},
    {"spec/mpiImplementation": "OpenMPI"},
    {"spec/tools": ["kubectl"]},
    {"spec/workerAgent": True},
    {"spec/workerAgent": {"processes": True}},
    {"spec/runMode": {"debug": {"enabled": True, "replicaSpecs": [{"type": "launcher", "command": ["sh"]}]}}},
    {"spec/runMode": {"pause": {"resumeSpecs": [{"type": "worker", "args": ["-x"], "skipInitContainer": True}]}}},
    *(
        {f"spec/mpiReplicaSpecs/{role}/template/spec/{path}": value}
        for role in ("Launcher", "Worker")
        for path, value in {
            "nodeSelector": {"a": "b"},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [{"name": "first", "image": "x"}],
            "containers/0/env": [{"name": "A", "value": role}],
            "containers/0/resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "1"}},
            "containers/0/readinessProbe": {"tcpSocket": {"port": 22}},
            "containers/0/command": ["sleep", "9"],
            "containers/0/name": "worker",
            "containers/1": {"name": "beside", "image": "x"},
        }.items()
    ),
]
COMMANDS = [
    ["mpirun", "-n", "2", "/pi"],
    [
        "/opt/ompi/bin/mpirun",
        "--prefix",
        "/opt/ompi",
        "--mca",
        "btl",
        "tcp,self",
        "-N",
        "4",
        "-x",
        "A",
        "/pi",
        "-n",
        "9",
    ],
    ["mpirun", "--hostfile", "/etc/mpi/hostfile", "/pi"],
    ["mpirun", "--hostfile", "/data/hosts", "/pi"],
    ["mpirun", "--unheard-of", "1", "/pi"],
    ["horovodrun", "-np", "2", "python", "train.py"],
    ["mpirun", "--version"],
]


def changed(command: list[str], changes: list[Object]) -> Object:
    """A job of v1 with all of the changes; the launcher has the command unless they give it one."""
    items = [item for one in changes for item in one.items()]
    resource = mpijob("v1", {path: value for path, value in items if not path.endswith("containers/1")})
    roles = resource["spec"]["mpiReplicaSpecs"]
    for path, value in items:
        if path.endswith("containers/1"):
            containers = roles[path.split("/")[2]]["template"]["spec"]["containers"]
            containers[1:] = [value]
    roles["Launcher"]["template"]["spec"]["containers"][0].setdefault("command", command)
    return resource


def test_changes_are_of_all_settings() -> None:
    names = {path.split("/")[1] for one in CHANGES for path in one}
    assert {one for one in OURS | KUBEFLOW if "." not in one} - names == {"dialect", "cleanPodPolicy"}


@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(CHANGES), max_size=6), st.sampled_from(["v2beta1", "t9k"]))
def test_there_and_back(command: list[str], changes: list[Object], to: str) -> None:
    resource = changed(command, changes)
    before = read_(resource)
    if before is None:  # what can't be combined
        return
    there, lost = converted(resource, to)
    back, lost_again = converted(there, "v1")
    after = read_(back)
    assert after is not None
    assert unnamed(before, after, (*lost, *lost_again)) == []


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
