"""What a job means by what it doesn't say, by version; and which of two settings holds."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest
from mpijobs import ABSENT, annotated, job, mpijob, problems

from agents.job.model import (
    CleanPodPolicy,
    Dialect,
    Job,
    KeyType,
    Passwd,
    RestartPolicy,
    Role,
    RunPolicy,
    Ssh,
    Transport,
)

VERSIONS = ["v1", "v2beta1"]
MPIJOBS = pytest.mark.parametrize("version", [*VERSIONS, "t9k"])
WORKER = "spec/mpiReplicaSpecs/Worker"
LAUNCHER = "spec/mpiReplicaSpecs/Launcher"
GPU = {f"{LAUNCHER}/template/spec/containers/0/resources": {"limits": {"nvidia.com/gpu": 1}}}


def test_v1() -> None:
    made = job("v1")
    template = {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}
    assert made == Job(
        name="pi",
        namespace="default",
        uid="1-2",
        generation=1,
        api_version="kubeflow.org/v1",
        dialect=Dialect.V1,
        transport=Transport.EXEC,
        launcher=Role(1, RestartPolicy.NEVER, template),
        worker=Role(2, RestartPolicy.NEVER, template),
    )


def test_v2beta1() -> None:
    made = job("v2beta1")
    assert (made.dialect, made.transport) == (Dialect.V2BETA1, Transport.SSH)
    assert (made.launcher.restart_policy, made.worker.restart_policy) == (RestartPolicy.ON_FAILURE, RestartPolicy.NEVER)
    assert made.policy == RunPolicy(clean_pods=CleanPodPolicy.NONE)
    assert made.slots == 1
    assert made.ssh.mount_path == "/root/.ssh"
    assert not made.launcher_waits
    assert not made.launcher_is_worker


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("policy", "top", "expected"),
    [
        (None, None, "None"),
        (None, "All", "All"),
        ("Running", None, "Running"),
        ("Running", "All", "Running"),
        ("None", "All", "None"),
    ],
)
def test_run_policy_goes_before_the_spec(version: str, policy: str | None, top: str | None, expected: str) -> None:
    made = job(version, {"spec/runPolicy/cleanPodPolicy": policy, "spec/cleanPodPolicy": top})
    assert made.policy.clean_pods == expected


def test_v1_takes_any_clean_pod_policy_as_none() -> None:
    assert job("v1", {"spec/runPolicy/cleanPodPolicy": "running"}).policy.clean_pods is CleanPodPolicy.NONE


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        ("v1", {WORKER: ABSENT}),
        ("v1", {f"{WORKER}/replicas": ABSENT}),
        ("v1", {f"{WORKER}/replicas": 0}),
        ("v2beta1", {WORKER: ABSENT}),
        ("v2beta1", {f"{WORKER}/replicas": 0, "spec/runLauncherAsWorker": True}),
        ("v2beta1", {f"{WORKER}/replicas": ABSENT, "spec/runLauncherAsWorker": True}),
    ],
)
def test_jobs_may_have_no_workers(version: str, changes: dict[str, Any]) -> None:
    assert job(version, changes).worker.replicas == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("field", "annotation", "attribute", "values"),
    [
        ("transport", "transport", "transport", ("ssh", "exec")),
        ("rbac", "rbac", "rbac", ("managed", "none")),
        ("ranksLost", "ranks_lost", "ranks_lost", ("Ignore", "Fail")),
        ("workerUpdateStrategy", "worker_update_strategy", "worker_update", ("OnDelete", "RollingUpdate")),
        ("mpiImplementation", "mpi_implementation", "implementation", ("Intel", "MPICH")),
        ("mainContainer", "main_container", "main_container", ("gone", "mpi")),
        ("dialect", "dialect", "dialect", ("v1", "v2beta1")),
        ("dialect", "dialect", "dialect", ("v2beta1", "v1")),
    ],
)
def test_annotation_goes_before_the_field(
    version: str, field: str, annotation: str, attribute: str, values: tuple[str, str]
) -> None:
    first, second = values
    seen = attrgetter(attribute)
    if first != "gone":
        assert seen(job(version, {f"spec/{field}": first})) == first
    assert seen(job(version, annotated(**{annotation: second}))) == second
    both = job(version, {f"spec/{field}": first, **annotated(**{annotation: second})})
    assert seen(both) == second


@MPIJOBS
@pytest.mark.parametrize("value", [True, False])
def test_annotation_goes_before_the_field_for_tagged_output(version: str, value: bool) -> None:
    field = {"spec/tagOutput": value}
    assert job(version, field).tags_output is value
    assert job(version, {**field, **annotated(tag_output=str(not value).lower())}).tags_output is not value


@pytest.mark.parametrize("version", [*VERSIONS, "t9k", "virtual"])
@pytest.mark.parametrize(
    ("changes", "agent"),
    [
        ({}, None),
        ({"spec/workerAgent": None}, None),
        ({"spec/workerAgent": True}, "true"),
        ({"spec/workerAgent": False}, "false"),
        ({"spec/workerAgent": {}}, "true"),
        ({"spec/workerAgent": {"processes": False}}, "true"),
        ({"spec/workerAgent": {"processes": True}}, "processes"),
        ({"spec/workerAgent": {"processes": True}, **annotated(worker_agent="false")}, "false"),
        ({"spec/workerAgent": False, **annotated(worker_agent="true")}, "true"),
        (annotated(worker_agent="processes"), "processes"),
    ],
)
def test_the_worker_agent_is_a_flag_or_an_object(version: str, changes: dict[str, Any], agent: str | None) -> None:
    assert job(version, changes).worker_agent == agent


@MPIJOBS
@pytest.mark.parametrize(
    ("changes", "tools"),
    [
        ({}, None),
        ({"spec/tools": None}, None),
        ({"spec/tools": []}, ()),
        ({"spec/tools": ["kubectl", "kubectl"]}, ("kubectl",)),
        ({"spec/tools": [], **annotated(tools="kubectl")}, ("kubectl",)),
        (annotated(tools=" kubectl,"), ("kubectl",)),
        (annotated(tools=""), None),
    ],
)
def test_tools(version: str, changes: dict[str, Any], tools: tuple[str, ...] | None) -> None:
    assert job(version, changes).tools == tools


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("suspend", "pause"), [(True, False), (False, True), (True, True), (False, False)])
def test_pausing_is_suspending(version: str, suspend: bool, pause: bool) -> None:
    changes = {"spec/runPolicy/suspend": suspend, "spec/runMode/pause/enabled": pause}
    assert job(version, changes).policy.is_suspended is (suspend or pause)


@pytest.mark.parametrize("version", VERSIONS)
def test_flags_and_the_launchers_time(version: str) -> None:
    both = annotated(run_launcher_as_worker="true", launcher_creation_policy="WaitForWorkersReady")
    made = job(version, {"spec/runLauncherAsWorker": False, "spec/launcherCreationPolicy": "AtStartup", **both})
    assert made.launcher_is_worker
    assert made.launcher_waits
    made = job(version, {"spec/runLauncherAsWorker": True, **annotated(run_launcher_as_worker="false")})
    assert not made.launcher_is_worker


def test_unknown_launcher_creation_policy_is_the_default_as_upstream() -> None:
    assert not job("v2beta1", {"spec/launcherCreationPolicy": "WaitForWorkers"}).launcher_waits


@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        ("v1", GPU, True),
        (
            "v1",
            GPU | {"spec/runLauncherAsWorker": False},
            True,
        ),  # v2beta1's default, which any update through it writes
        ("v1", GPU | annotated(run_launcher_as_worker="false"), False),
        ("v1", {f"{LAUNCHER}/template/spec/containers/0/resources": {"limits": {"example.com/gpus": 1}}}, True),
        ("v1", {f"{LAUNCHER}/template/spec/containers/0/resources": {"requests": {"nvidia.com/gpu": 1}}}, False),
        ("v1", {f"{LAUNCHER}/template/spec/containers/0/resources": {"limits": {"cpu": 1}}}, False),
        ("v1", {f"{WORKER}/template/spec/containers/0/resources": {"limits": {"nvidia.com/gpu": 1}}}, False),
        ("v2beta1", GPU, False),
        ("v2beta1", GPU | {"spec/runLauncherAsWorker": True}, True),
    ],
)
def test_v1_launcher_with_a_gpu_is_a_host(version: str, changes: dict[str, Any], expected: bool) -> None:
    assert job(version, changes).launcher_is_worker is expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["1pi", "3d.segmentation", "a.b.c", "x" * 54, "007"])
def test_names_that_are_no_service_names_are_good(version: str, name: str) -> None:
    assert job(version, {"metadata/name": name}).name == name


def test_v1_name_may_be_as_long_as_a_label() -> None:
    assert job("v1", {"metadata/name": "x" * 63}).name == "x" * 63


def test_empty_yaml_keys_are_absent() -> None:
    container = f"{WORKER}/template/spec/containers/0"
    made = job("v2beta1", {f"{container}/command": None, f"{container}/env": None, "spec/runPolicy": None})
    assert made.worker.template == {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}


def test_nulls_in_lists_stay() -> None:
    volume = {"name": "v", "x": [None]}
    made = job("v1", {f"{WORKER}/template/spec/volumes": [volume]})
    assert made.worker.template["spec"]["volumes"] == [volume]


def test_whole_floats_are_numbers() -> None:
    assert job("v1", {"spec/slotsPerWorker": 4.0}).slots == 4


# ssh.


@MPIJOBS
def test_nothing_need_be_said_of_ssh(version: str) -> None:
    assert job(version).ssh == Ssh("/root/.ssh", "/usr/sbin/sshd", None, KeyType.ED25519, Passwd.AUTO)


@MPIJOBS
def test_fields_of_ssh(version: str) -> None:
    path = "spec/ssh/sshAuthMountPath" if version == "t9k" else "spec/sshAuthMountPath"
    fields = {"sshdPath": "/opt/sshd", "port": 2022, "keyType": "ecdsa", "passwd": "generated"}
    found = job(version, {"spec/ssh": fields, path: "/home/mpi user/.ssh/"}).ssh
    assert found == Ssh("/home/mpi user/.ssh", "/opt/sshd", 2022, KeyType.ECDSA, Passwd.GENERATED)


@MPIJOBS
def test_annotations_win_over_fields_of_ssh(version: str) -> None:
    given = annotated(
        ssh_auth_mount_path="/keys", sshd_path="/sshd", ssh_port="7", ssh_key_type="ed25519", ssh_passwd="image"
    )
    fields = {"sshdPath": "/opt/sshd", "port": 2022, "keyType": "ecdsa", "passwd": "generated"}
    assert job(version, given | {"spec/ssh": fields}).ssh == Ssh("/keys", "/sshd", 7, KeyType.ED25519, Passwd.IMAGE)


def test_t9ks_path_stands_in_its_ssh_alone_and_kubeflows_in_its_spec() -> None:
    assert job("t9k", {"spec/sshAuthMountPath": "/keys"}).ssh.mount_path == "/root/.ssh"
    assert job("v1", {"spec/ssh": {"sshAuthMountPath": "/keys"}}).ssh.mount_path == "/root/.ssh"


@pytest.mark.parametrize("path", ["keys", "./keys", "/", "//", "/a:b", '/a"b', "/a%h", "/a$b", "/a\\b", "/a\nb"])
def test_what_is_no_path_for_ssh(path: str) -> None:
    words = 'must be an absolute path without : " % $ \\'
    assert problems(mpijob("v2beta1", {"spec/sshAuthMountPath": path})) == [f"spec.sshAuthMountPath: {words}"]
    assert problems(mpijob("t9k", {"spec/ssh": {"sshdPath": path}})) == [f"spec.ssh.sshdPath: {words}"]
    found = problems(mpijob("v1", annotated(sshd_path=path)))
    assert found == [f"metadata.annotations[mpi-agents/sshd-path]: {words}"]
