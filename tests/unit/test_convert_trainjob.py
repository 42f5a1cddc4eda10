"""A job as a TrainJob of Kubeflow Trainer: valid by Trainer's schemas, with all that it can have."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpijobs import ABSENT, annotated, mpijob
from test_kubectl_mpi_convert import CHANGES, COMMANDS, JOBS, changed, read_

from agents.client.convert import Target, converted
from agents.client.errors import ManifestError
from agents.job.json_object import part
from agents.job.model import Implementation, Job
from agents.playground.definitions import problems, unknown
from tests import yamls

Object = dict[str, Any]

with open(os.path.join(os.path.dirname(__file__), "trainer.yaml"), encoding="utf-8") as file:
    SCHEMAS: dict[str, Object] = yamls.load(file)
EXEC, KEEPS = "transport exec", "cleanPodPolicy None"  # what a job with defaults loses


def made(resource: Object) -> tuple[Object, Object, list[str]]:
    """The runtime, the TrainJob, and what is lost."""
    found = converted(resource, Target.TRAINJOB)
    for body in found.manifests:
        schema = SCHEMAS[body["kind"]]
        assert (unknown(schema, body), problems(schema, body)) == ([], [])
    runtime, job = found.manifests
    reference = job["spec"]["runtimeRef"]
    assert (reference["kind"], reference["name"]) == (runtime["kind"], runtime["metadata"]["name"])
    return runtime["spec"], job, list(found.lost)


def replicated(runtime: Object) -> dict[str, Object]:
    return {one["name"]: one["template"] for one in runtime["template"]["spec"]["replicatedJobs"]}


def container(runtime: Object, name: str) -> Object:
    [found] = replicated(runtime)[name]["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("name", JOBS)
def test_known_jobs(name: str) -> None:
    job = read_(JOBS[name])
    if job is None or job.implementation is not Implementation.OPEN_MPI or not job.name[0].isalpha() or "." in job.name:
        with pytest.raises(ManifestError):
            made(JOBS[name])
        return
    check(job, *made(JOBS[name])[:2])


@given(st.sampled_from(COMMANDS), st.lists(st.sampled_from(CHANGES), max_size=6))
def test_any_job(command: list[str], changes: list[Object]) -> None:
    resource = changed(command, changes)
    if (job := read_(resource)) is not None:
        check(job, *made(resource)[:2])


def check(job: Job, runtime: Object, made_: Object) -> None:
    """Its size, and its templates except the main container's name and sshd."""
    roles = replicated(runtime)
    workers = job.worker.replicas
    policy = runtime["mlPolicy"]
    is_host = policy["mpi"]["runLauncherAsNode"]
    assert is_host is (job.launcher_is_worker or not workers)
    assert made_["spec"]["trainer"] == {"numNodes": workers + is_host, "numProcPerNode": job.slots}
    assert policy["numNodes"] == 1
    assert set(roles) == ({"launcher", "node"} if workers else {"launcher"})
    for name, role in (("launcher", job.launcher), ("node", job.worker)):
        if name not in roles:
            continue
        pod, template = roles[name]["spec"]["template"], role.template
        assert part(pod, "metadata") == part(template, "metadata")
        assert "node" in [one["name"] for one in pod["spec"]["containers"]]
        ours = {"containers", "restartPolicy"}
        assert {k: v for k, v in pod["spec"].items() if k not in ours} == {
            k: v for k, v in template["spec"].items() if k not in ours
        }
        for one, other in zip(pod["spec"]["containers"], template["spec"]["containers"], strict=True):
            is_main = one["name"] == "node"
            differing = {key for key in {*one, *other} if one.get(key) != other.get(key)}
            assert differing <= ({"name", "command", "args"} if is_main and name == "node" else {"name"})


def test_what_it_has() -> None:
    changes = {
        "metadata/labels": {"kueue.x-k8s.io/queue-name": "q"},
        "metadata/annotations": {"a": "b", "mpi-agents/rbac": "none"},
        "spec/runPolicy": {
            "cleanPodPolicy": "All",
            "activeDeadlineSeconds": 60,
            "backoffLimit": 2,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
        },
        "spec/sshAuthMountPath": "/home/me/.ssh",
    }
    runtime, job, lost = made(mpijob("v2beta1", changes))
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q"}
    assert job["metadata"]["annotations"] == {"a": "b"}
    assert (job["spec"]["suspend"], job["spec"]["managedBy"]) == (True, "kueue.x-k8s.io/multikueue")
    assert runtime["mlPolicy"]["mpi"]["sshAuthMountPath"] == "/home/me/.ssh"
    node, launcher = runtime["template"]["spec"]["replicatedJobs"]
    assert launcher["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert node["name"] == "node"
    limits = launcher["template"]["spec"]
    assert (limits["backoffLimit"], limits["activeDeadlineSeconds"]) == (2, 60)
    assert container(runtime, "node")["command"] == ["/usr/sbin/sshd", "-De"]
    assert [line.partition(":")[0] for line in lost] == ["our settings (rbac)"]


@pytest.mark.parametrize(
    ("version", "restart", "limit", "retries"),
    [
        ("v1", "Never", None, 0),
        ("v1", "OnFailure", None, 6),
        ("v1", "OnFailure", 3, 2),
        ("v2beta1", "OnFailure", 3, 3),
        ("v2beta1", "Never", None, 6),
    ],
)
def test_retries(version: str, restart: str, limit: int | None, retries: int) -> None:
    changes = {"spec/mpiReplicaSpecs/Launcher/restartPolicy": restart, "spec/runPolicy/backoffLimit": limit}
    runtime, *_ = made(mpijob(version, changes))
    assert replicated(runtime)["launcher"]["spec"]["backoffLimit"] == retries
    assert replicated(runtime)["launcher"]["spec"]["template"]["spec"]["restartPolicy"] == restart


@pytest.mark.parametrize(
    ("version", "changes", "lost"),
    [
        ("v2beta1", {}, [KEEPS]),
        ("v1", {}, [EXEC, KEEPS]),
        (
            "v1",
            {"spec/mpiReplicaSpecs/Worker/template/spec/containers/0/command": ["sleep"]},
            [EXEC, "the command of the workers", KEEPS],
        ),
        ("v2beta1", {"spec/runPolicy": {"ttlSecondsAfterFinished": 0}}, [KEEPS, "ttlSecondsAfterFinished"]),
        ("v2beta1", {"spec/runPolicy": {"schedulingPolicy": {"queue": "q"}}}, [KEEPS, "schedulingPolicy (queue)"]),
        ("v2beta1", {"spec/runMode": {"debug": {"enabled": True}}}, [KEEPS, "our settings (runMode)"]),
        ("v2beta1", {"spec/workerUpdateStrategy": "OnDelete"}, [KEEPS, "our settings (workerUpdateStrategy)"]),
        ("v2beta1", annotated(transport="exec", tools="kubectl"), [EXEC, KEEPS, "our settings (tools)"]),
        (
            "v1",
            {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "ExitCode"},
            [EXEC, KEEPS, "launchers without a limit", "restartPolicy ExitCode of the launcher, which a TrainJob"],
        ),
    ],
)
def test_what_is_lost(version: str, changes: Object, lost: list[str]) -> None:
    *_, told = made(mpijob(version, changes))
    assert [line[: len(begin)] for line, begin in zip(told, lost, strict=True)] == lost


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spec/mpiImplementation": "MPICH"}, "Open MPI only, not MPICH"),
        ({"metadata/name": "1st"}, "with a letter first"),
        ({"metadata/name": "a.b"}, "with a letter first"),
        ({"metadata/name": "a" * 50}, "its name is 6 too long"),
        (
            {"spec/mpiReplicaSpecs/Launcher/template/spec/containers": [{"name": "a"}, {"name": "node"}]},
            "a container node in addition",
        ),
    ],
)
def test_what_can_be_none(changes: Object, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        made(mpijob("v2beta1", changes))


def test_a_name_that_the_api_server_makes() -> None:
    resource = mpijob("v1", {"metadata/name": ABSENT, "metadata/generateName": "pi-"})
    _, job, _ = made(resource)
    assert job["metadata"]["generateName"] == "pi-"
    assert job["spec"]["runtimeRef"]["name"] == "pi"
