"""What T9k's jobs mean by what they don't say, and by mpirun's arguments."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import ABSENT, annotated, job

from agents.job.model import CleanPodPolicy, Dialect, Rbac, RestartPolicy, Transport

BOTH = ["t9k", "t9k-3"]
WORKER = "spec/replicaSpecs/0"
LAUNCHER = "spec/replicaSpecs/1"
CONTAINER = "spec/worker/template/spec/containers/0"


@pytest.mark.parametrize("version", BOTH)
def test_least(version: str) -> None:
    made = job(version)
    assert (made.dialect, made.transport, made.rbac) == (Dialect.T9K, Transport.SSH, Rbac.MANAGED)
    assert (made.worker.replicas, made.launcher.replicas, made.slots) == (2, 1, 1)
    assert made.policy.clean_pods is CleanPodPolicy.NONE
    assert made.policy.backoff_limit is None
    assert made.policy.scheduling.priority is None
    assert made.worker_agent is None
    assert made.api_version == "batch.tensorstack.dev/v1beta1"
    assert made.launch_command == ("mpirun", "--hostfile", "/etc/mpi/hostfile", "/pi")


@pytest.mark.parametrize("version", BOTH)
def test_our_own_fields_and_annotations(version: str) -> None:
    changes = {"spec/transport": "ssh", "spec/workerAgent": True, "spec/ssh": {"port": 2200, "sshdPath": "/a/sshd"}}
    made = job(version, {**changes, **annotated(transport="exec", worker_agent="false", ssh_port="2300", rbac="none")})
    assert (made.transport, made.worker_agent, made.ssh.port, made.rbac) == ("exec", "false", 2300, "none")
    assert made.ssh.sshd_path == "/a/sshd"


def test_replicas_are_one_by_default() -> None:
    assert job("t9k", {"spec/worker/replicas": ABSENT}).worker.replicas == 1
    assert job("t9k-3", {f"{WORKER}/replicas": None, f"{LAUNCHER}/replicas": None}).worker.replicas == 1


@pytest.mark.parametrize("version", BOTH)
def test_priority_is_0_by_default_where_there_is_a_queue(version: str) -> None:
    assert job(version, {"spec/scheduler/t9kScheduler": {"queue": "a"}}).policy.scheduling.priority == 0


def test_debugged_jobs_need_no_program() -> None:
    made = job("t9k", {"spec/worker/cmd": ABSENT, "spec/runMode/debug/enabled": True})
    assert made.launch_command == ("mpirun", "--hostfile", "/etc/mpi/hostfile")


def test_generation_3_without_a_launcher() -> None:
    assert job("t9k-3", {LAUNCHER: ABSENT}).launcher == job("t9k-3").launcher


def test_launchers_own_command() -> None:
    own = {"spec": {"containers": [{"name": "launcher", "command": ["/start"], "args": ["on"]}]}}
    made = job("t9k-3", {f"{LAUNCHER}/template": own})
    assert made.launch_command == ("/start", "on")
    assert [one["name"] for one in made.launcher.template["spec"]["containers"]] == ["worker"]


def test_launcher_claims_no_device() -> None:
    claims = [{"name": "gpu"}]
    resources = {"claims": claims, "limits": {"cpu": 1, "nvidia.com/gpu": 1}}
    spec = "spec/worker/template/spec"
    made = job("t9k", {f"{CONTAINER}/resources": resources, f"{spec}/resourceClaims": claims})
    assert "resourceClaims" not in made.launcher.template["spec"]
    assert made.launcher.template["spec"]["containers"][0]["resources"] == {"limits": {"cpu": 1}}
    assert made.worker.template["spec"]["resourceClaims"] == claims


@pytest.mark.parametrize(
    ("given", "policy", "expected"),
    [
        (None, None, "None"),
        (False, None, "None"),
        (True, None, "All"),
        (True, "Running", "Running"),
        (True, "None", "None"),
        (None, "All", "All"),
    ],
)
def test_which_workers_are_cleaned_up(given: bool | None, policy: str | None, expected: str) -> None:
    made = job("t9k", {"spec/runPolicy": {"cleanUpWorkers": given, "cleanPodPolicy": policy}})
    assert made.policy.clean_pods == expected


@pytest.mark.parametrize(
    ("restart", "backoff", "policy", "expected"),
    [
        ({}, None, "Never", None),
        ({"policy": "OnFailure"}, None, "OnFailure", None),
        ({"policy": "OnFailure", "limit": 0}, None, "OnFailure", None),
        ({"policy": "Always", "limit": 2}, None, "Always", 3),  # the third restart is one too many
        ({"policy": "OnFailure", "limit": 2}, 5, "OnFailure", 5),
    ],
)
def test_restarts_of_the_launcher(restart: Any, backoff: Any, policy: str, expected: int | None) -> None:
    made = job("t9k-3", {f"{LAUNCHER}/restartPolicy": restart, "spec/runPolicy": {"backoffLimit": backoff}})
    assert made.launcher.restart_policy is RestartPolicy(policy)
    assert made.policy.backoff_limit == expected


@pytest.mark.parametrize(
    ("arguments", "slots"),
    [
        ([], 1),
        (["-N", "3"], 3),
        (["--npernode", "4"], 4),
        (["-npernode", "4", "-N"], 4),
        (["--map-by", "ppr:5:node"], 5),
        (["--map-by", "ppr:5:node:pe=2"], 5),
        (["--map-by", "ppr:5:socket"], 1),
        (["--map-by", "ppr"], 1),
        (["-np", "5"], 3),
        (["-n", "2"], 1),
        (["-c", "4", "-N", "1"], 2),
        (["-N", "many"], 1),
        (["-N", "-3"], 1),
        (["-N", "9" * 40], 1),
        (["N", "3"], 1),
    ],
)
def test_slots_are_what_mpiruns_arguments_want(arguments: list[str], slots: int) -> None:
    assert job("t9k", {"spec/worker/extraMPIArgs": arguments}).slots == slots


@pytest.mark.parametrize(
    ("home", "start"),
    [
        ("", ["mpirun"]),
        ("/usr/local", ["/usr/local/bin/mpirun", "--prefix", "/usr/local"]),
        ("/usr/local/", ["/usr/local/bin/mpirun", "--prefix", "/usr/local"]),
        ("/", ["/bin/mpirun", "--prefix", "/"]),
    ],
)
def test_where_mpirun_is(home: str, start: list[str]) -> None:
    changes = {
        "spec/mpiHome": home,
        "spec/mca": {"pml": "ob1", "btl": "^openib"},
        "spec/worker/extraMPIArgs": ["-x", "A"],
    }
    line = [
        *start,
        "--hostfile",
        "/etc/mpi/hostfile",
        "--mca",
        "btl",
        "^openib",
        "--mca",
        "pml",
        "ob1",
        "-x",
        "A",
        "/pi",
    ]
    assert list(job("t9k", changes).launch_command) == line


@pytest.mark.parametrize(
    ("transport", "probe", "waits"),
    [("ssh", None, False), ("ssh", {"exec": {}}, True), ("exec", {"exec": {}}, False)],  # exec's launcher looks itself
)
def test_launcher_waits_for_workers_that_say_themselves_when_they_are_ready(
    transport: str, probe: Any, waits: bool
) -> None:
    made = job("t9k", {"spec/transport": transport, f"{CONTAINER}/readinessProbe": probe})
    assert made.launcher_waits is waits
