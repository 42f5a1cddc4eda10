"""What is refused, with the words and the path that the user reads."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import ABSENT, annotated, job, mpijob, problems

VERSIONS = ["v1", "v2beta1"]
LAUNCHER = "spec/mpiReplicaSpecs/Launcher"
WORKER = "spec/mpiReplicaSpecs/Worker"
CONTAINER = f"{WORKER}/template/spec/containers/0"
WORKER_PATH = "spec.mpiReplicaSpecs[Worker]"
CONTAINER_PATH = f"{WORKER_PATH}.template.spec.containers[0]"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec": ABSENT}, "spec.mpiReplicaSpecs: must have a Launcher"),
        ({"spec/mpiReplicaSpecs": {}}, "spec.mpiReplicaSpecs: must have a Launcher"),
        ({"spec/mpiReplicaSpecs": 3}, "spec.mpiReplicaSpecs: must be an object, not the number 3"),
        ({LAUNCHER: ABSENT}, "spec.mpiReplicaSpecs[Launcher]: is required"),
        ({f"{LAUNCHER}/replicas": 2}, "spec.mpiReplicaSpecs[Launcher].replicas: must be 1"),
        ({f"{LAUNCHER}/replicas": 0}, "spec.mpiReplicaSpecs[Launcher].replicas: must be 1"),
        ({f"{WORKER}/replicas": "2"}, f"{WORKER_PATH}.replicas: must be a whole number, not text"),
        ({f"{WORKER}/replicas": True}, f"{WORKER_PATH}.replicas: must be a whole number, not true"),
        ({f"{WORKER}/replicas": 1.5}, f"{WORKER_PATH}.replicas: must be a whole number, not the number 1.5"),
        ({f"{WORKER}/replicas": 20001}, f"{WORKER_PATH}.replicas: must be at most 20000"),
        ({"spec/slotsPerWorker": 0}, "spec.slotsPerWorker: must be 1 or more, not 0"),
        ({"spec/slotsPerWorker": 2**31}, "spec.slotsPerWorker: must be at most 2147483647"),
        (
            {"spec/runPolicy/ttlSecondsAfterFinished": -1},
            "spec.runPolicy.ttlSecondsAfterFinished: must be 0 or more, not -1",
        ),
        (
            {"spec/runPolicy/activeDeadlineSeconds": -5},
            "spec.runPolicy.activeDeadlineSeconds: must be 0 or more, not -5",
        ),
        ({"spec/runPolicy/backoffLimit": -1}, "spec.runPolicy.backoffLimit: must be 0 or more, not -1"),
        ({"spec/runPolicy/suspend": "yes"}, "spec.runPolicy.suspend: must be true or false, not text"),
        ({"spec/runPolicy/managedBy": 1}, "spec.runPolicy.managedBy: must be text, not the number 1"),
        ({"spec/runPolicy": []}, "spec.runPolicy: must be an object, not a list"),
        (
            {"spec/runPolicy/schedulingPolicy/minResources": {"cpu": "many"}},
            "spec.runPolicy.schedulingPolicy.minResources[cpu]: must be a quantity, as 500m or 2Gi",
        ),
        ({"spec/dialect": "v3"}, 'spec.dialect: must be v1 or v2beta1, not "v3"'),
        (
            {"spec/workerUpdateStrategy": "Recreate"},
            'spec.workerUpdateStrategy: must be RollingUpdate or OnDelete, not "Recreate"',
        ),
        (
            {"spec/mpiImplementation": "openmpi"},
            'spec.mpiImplementation: must be OpenMPI, Intel or MPICH, not "openmpi"',
        ),
        ({"spec/mainContainer": "x"}, 'spec.mainContainer: "x" is none of the workers\': mpi'),
        ({"apiVersion": "kubeflow.org/v1alpha2"}, "apiVersion: must be kubeflow.org/v1 or kubeflow.org/v2beta1"),
        ({"metadata/name": ""}, "metadata.name: is required"),
        ({"metadata/name": []}, "metadata.name: must be text, not a list"),
        ({"metadata": "pi"}, "metadata: must be an object, not text"),
        ({"metadata/namespace": ""}, "metadata.namespace: is required"),
    ],
)
def test_fields(version: str, changes: dict[str, Any], expected: str) -> None:
    assert problems(mpijob(version, changes), version) == [expected]


@pytest.mark.parametrize("version", [*VERSIONS, "t9k", "t9k-3", "virtual"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"metadata/uid": ABSENT}, "metadata.uid: is required"),
        ({"spec/transport": "rsh"}, 'spec.transport: must be exec or ssh, not "rsh"'),
        ({"spec/rbac": "None"}, 'spec.rbac: must be managed or none, not "None"'),
        (annotated(rbac="off"), 'metadata.annotations[mpi-agents/rbac]: must be managed or none, not "off"'),
        ({"spec/tools": "kubectl"}, "spec.tools: must be a list, not text"),
        ({"spec/tools": ["kubectl", "helm"]}, 'spec.tools: must be kubectl, not "helm"'),
        ({"spec/tools": [1]}, "spec.tools[0]: must be text, not the number 1"),
        (annotated(tools="helm"), 'metadata.annotations[mpi-agents/tools]: must be kubectl, not "helm"'),
        ({"spec/workerAgent": "true"}, "spec.workerAgent: must be true or false, not text"),
        (
            annotated(worker_agent="yes"),
            'metadata.annotations[mpi-agents/worker-agent]: must be false, true or processes, not "yes"',
        ),
        ({"spec/workerAgent": {"processes": 1}}, "spec.workerAgent.processes: must be true or false, not the number 1"),
        ({"spec/ssh": "ssh"}, "spec.ssh: must be an object, not text"),
        ({"spec/ssh/port": 0}, "spec.ssh.port: must be 1 or more, not 0"),
        ({"spec/ssh/port": 65536}, "spec.ssh.port: must be at most 65535"),
        ({"spec/ssh/port": "22"}, "spec.ssh.port: must be a whole number, not text"),
        ({"spec/ssh/keyType": "rsa"}, 'spec.ssh.keyType: must be ed25519 or ecdsa, not "rsa"'),
        ({"spec/ssh/passwd": "mine"}, 'spec.ssh.passwd: must be image or generated, not "mine"'),
        (
            annotated(ssh_port="99999"),
            'metadata.annotations[mpi-agents/ssh-port]: must be a whole number, 1 to 65535, not "99999"',
        ),
    ],
)
def test_settings_that_all_dialects_share(version: str, changes: dict[str, Any], expected: str) -> None:
    assert problems(mpijob(version, changes)) == [expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"transport": "tcp"}, 'metadata.annotations[mpi-agents/transport]: must be exec or ssh, not "tcp"'),
        (
            {"run_launcher_as_worker": "yes"},
            'metadata.annotations[mpi-agents/run-launcher-as-worker]: must be "true" or "false", not "yes"',
        ),
        (
            {"launcher_creation_policy": "WaitForWorkers"},
            "metadata.annotations[mpi-agents/launcher-creation-policy]: "
            'must be AtStartup or WaitForWorkersReady, not "WaitForWorkers"',
        ),
        ({"main_container": "x"}, 'metadata.annotations[mpi-agents/main-container]: "x" is none of the workers\': mpi'),
        ({"dialect": "v2"}, 'metadata.annotations[mpi-agents/dialect]: must be v1 or v2beta1, not "v2"'),
    ],
)
def test_annotations(settings: dict[str, str], expected: str) -> None:
    assert problems(mpijob("v1", annotated(**settings))) == [expected]


def test_annotation_heals_a_field() -> None:
    assert job("v1", {"spec/transport": "rsh", **annotated(transport="exec")}).transport == "exec"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({f"{WORKER}/template": ABSENT}, f"{WORKER_PATH}.template.spec.containers: must have at least one container"),
        (
            {f"{WORKER}/template/spec/containers": []},
            f"{WORKER_PATH}.template.spec.containers: must have at least one container",
        ),
        (
            {f"{WORKER}/template/spec/containers": "x"},
            f"{WORKER_PATH}.template.spec.containers: must be a list, not text",
        ),
        ({CONTAINER: None}, f"{CONTAINER_PATH}: must be an object, not null"),
        ({CONTAINER: "x"}, f"{CONTAINER_PATH}: must be an object, not text"),
        ({f"{CONTAINER}/name": ABSENT}, f"{CONTAINER_PATH}.name: is required"),
        ({f"{CONTAINER}/name": 7}, f"{CONTAINER_PATH}.name: must be text, not the number 7"),
        ({f"{CONTAINER}/command": "sleep"}, f"{CONTAINER_PATH}.command: must be a list, not text"),
        ({f"{CONTAINER}/args": ["-n", 2]}, f"{CONTAINER_PATH}.args[1]: must be text, not the number 2"),
        ({f"{CONTAINER}/env": {"A": "b"}}, f"{CONTAINER_PATH}.env: must be a list, not an object"),
        ({f"{CONTAINER}/env": [{"value": "b"}]}, f"{CONTAINER_PATH}.env[0].name: is required"),
        ({f"{CONTAINER}/volumeMounts": [3]}, f"{CONTAINER_PATH}.volumeMounts[0]: must be an object, not the number 3"),
        (
            {f"{CONTAINER}/volumeMounts": [{"name": "data", "mountPath": 1}]},
            f"{CONTAINER_PATH}.volumeMounts[0].mountPath: must be text, not the number 1",
        ),
        ({f"{CONTAINER}/resources": []}, f"{CONTAINER_PATH}.resources: must be an object, not a list"),
        (
            {f"{CONTAINER}/resources/limits": {"memory": "2 GB"}},
            f"{CONTAINER_PATH}.resources.limits[memory]: must be a quantity, as 500m or 2Gi",
        ),
        (
            {f"{WORKER}/template/metadata/labels": {"a": 1}},
            f"{WORKER_PATH}.template.metadata.labels[a]: must be text, not the number 1",
        ),
        (
            {f"{WORKER}/template/spec/hostNetwork": "true"},
            f"{WORKER_PATH}.template.spec.hostNetwork: must be true or false, not text",
        ),
        (
            {f"{WORKER}/template/spec/dnsConfig/searches": "x"},
            f"{WORKER_PATH}.template.spec.dnsConfig.searches: must be a list, not text",
        ),
    ],
)
def test_templates(changes: dict[str, Any], expected: str) -> None:
    assert problems(mpijob("v1", changes)) == [expected]


def test_deep_templates() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    for _ in range(800):
        deep = {"a": deep}
    assert problems(mpijob("v1", {f"{WORKER}/template/spec/x": deep})) == [
        f"{WORKER_PATH}.template: is nested too deeply for a pod"
    ]


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
@pytest.mark.parametrize(
    ("version", "policy", "good"),
    [
        ("v1", "Always", True),
        ("v1", "ExitCode", True),
        ("v1", "Sometimes", False),
        ("v2beta1", "Never", True),
        ("v2beta1", "OnFailure", True),
        ("v2beta1", "Always", False),
        ("v2beta1", "ExitCode", False),
        ("v2beta1", "never", False),
    ],
)
def test_restart_policies(role: str, version: str, policy: str, good: bool) -> None:
    changes = {f"spec/mpiReplicaSpecs/{role}/restartPolicy": policy}
    if good:
        made = job(version, changes)
        assert (made.launcher if role == "Launcher" else made.worker).restart_policy == policy
    else:
        [problem] = problems(mpijob(version, changes))
        assert problem.startswith(f"spec.mpiReplicaSpecs[{role}].restartPolicy: must be Never")


def test_only_v2beta1_refuses_an_unknown_clean_pod_policy() -> None:
    assert problems(mpijob("v2beta1", {"spec/runPolicy/cleanPodPolicy": "running"})) == [
        'spec.runPolicy.cleanPodPolicy: must be None, Running or All, not "running"'
    ]


@pytest.mark.parametrize("replicas", [0, ABSENT])
def test_v2beta1_wants_a_worker_where_the_launcher_is_none(replicas: Any) -> None:
    [problem] = problems(mpijob("v2beta1", {f"{WORKER}/replicas": replicas}))
    assert problem.startswith(f"{WORKER_PATH}.replicas: must be 1 or more")


def test_negative_workers() -> None:
    assert problems(mpijob("v1", {f"{WORKER}/replicas": -1})) == [f"{WORKER_PATH}.replicas: must be 0 or more, not -1"]


@pytest.mark.parametrize("name", ["Pi", "pi_2", "-pi", "pi-", ".pi", "a..b", "pi\n"])
def test_names_that_no_pod_has(name: str) -> None:
    [problem] = problems(mpijob("v1", {"metadata/name": name}))
    assert problem.startswith("metadata.name: must be lower case letters")


def test_names_too_long() -> None:
    [problem] = problems(mpijob("v1", {"metadata/name": "x" * 64}))
    assert problem == "metadata.name: must be at most 63 long: it is a label of the pods"
    [problem] = problems(mpijob("v2beta1", {"metadata/name": "x" * 54, f"{WORKER}/replicas": 11}))
    assert problem == f'metadata.name: is 1 too long: "{"x" * 54}-worker-10" is a host name, of at most 63'
    assert job("v2beta1", {"metadata/name": "x" * 54, f"{WORKER}/replicas": 10}).worker.replicas == 10


def test_all_problems_are_told_at_once() -> None:
    changes = {
        LAUNCHER: ABSENT,
        f"{WORKER}/replicas": -1,
        CONTAINER: {},
        "spec/slotsPerWorker": 0,
        **annotated(rbac="?"),
    }
    assert sorted(one.partition(": ")[0] for one in problems(mpijob("v2beta1", changes))) == [
        "metadata.annotations[mpi-agents/rbac]",
        "spec.mpiReplicaSpecs[Launcher]",
        "spec.mpiReplicaSpecs[Worker].replicas",
        "spec.mpiReplicaSpecs[Worker].template.spec.containers[0].name",
        "spec.slotsPerWorker",
    ]


@pytest.mark.parametrize("value", [None, 3, "x", [], True])
def test_what_is_no_object(value: Any) -> None:
    assert problems(value)


@pytest.mark.parametrize(
    ("version", "path"),
    [
        ("v1", f"{WORKER}/template"),
        ("v2beta1", f"{WORKER}/template"),
        ("t9k", "spec/worker/template"),
        ("v1", f"{LAUNCHER}/template"),
    ],
)
@pytest.mark.parametrize(("size", "is_taken"), [(1_000_000, True), (1_048_576, False)])
def test_a_template_that_is_too_large(version: str, path: str, size: int, is_taken: bool) -> None:
    replicas = {f"{path.removesuffix('/template')}/replicas": 1}
    changes = {f"{path}/metadata/annotations": {"a": "x" * size}, **replicas}
    if is_taken:
        job(version, changes)
    else:
        (one,) = problems(mpijob(version, changes), version)
        assert ".template: must be at most 1048576 bytes, not 10" in one
        assert "ConfigMap" in one


@pytest.mark.parametrize(("version", "path"), [(one, WORKER) for one in VERSIONS] + [("t9k", "spec/worker")])
@pytest.mark.parametrize(("replicas", "is_taken"), [(1300, True), (1400, False)])
def test_workers_that_are_too_large_together(version: str, path: str, replicas: int, is_taken: bool) -> None:
    changes = {f"{path}/replicas": replicas, f"{path}/template/metadata/annotations": {"a": "x" * 200_000}}
    if is_taken:
        job(version, changes)
    else:
        (one,) = problems(mpijob(version, changes), version)
        assert ".template: must be at most 268435456 bytes in all pods of the role, not 1400 times 200" in one


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", [{}, 0, "", False, {"a": 1}, [[]], [{"name": ""}], [{}], [{"name": 1}], [None]])
def test_an_environment_that_is_no_list_of_variables(version: str, value: Any) -> None:
    found = problems(mpijob(version, {f"{CONTAINER}/env": value}), version)
    assert found
    assert all(one.startswith(f"{CONTAINER_PATH}.env") for one in found)
