"""What is refused of T9k's jobs, with the words and the path that the user reads."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import ABSENT, annotated, mpijob, problems

BOTH = ["t9k", "t9k-3"]
WORKER = "spec/replicaSpecs/0"
LAUNCHER = "spec/replicaSpecs/1"
CONTAINER = "spec/worker/template/spec/containers/0"
OLDER = "is of an older generation of this API: "
NO_PROGRAM = "is required: the program that mpirun starts (unless the job is debugged)"
MIXED = "belongs to another generation of this API than"


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"apiVersion": "batch.tensorstack.dev/v1"}, "apiVersion: must be batch.tensorstack.dev/v1beta1"),
        ({"spec/runMode": []}, "spec.runMode: must be an object, not a list"),
        ({"spec/runMode/debug/enabled": "true"}, "spec.runMode.debug.enabled: must be true or false, not text"),
        ({"spec/runMode/debug/enable": True}, f"spec.runMode.debug.enable: {OLDER}its name is enabled now"),
        ({"spec/runMode/pause/enable": False}, f"spec.runMode.pause.enable: {OLDER}its name is enabled now"),
        (
            {"spec/runMode/debug/replicaSpecs": [{"type": "master"}]},
            'spec.runMode.debug.replicaSpecs[0].type: must be launcher or worker, not "master"',
        ),
        (
            {"spec/runMode/pause/resumeSpecs": [{"type": "worker"}, {"type": "worker"}]},
            'spec.runMode.pause.resumeSpecs[1].type: "worker" is there twice',
        ),
        (
            {"spec/runMode/pause/resumeSpecs": [{"command": ["a"]}]},
            "spec.runMode.pause.resumeSpecs[0].type: is required: launcher or worker",
        ),
        (
            {"spec/runMode/pause/resumeSpecs": [{"type": "worker", "args": "a"}]},
            "spec.runMode.pause.resumeSpecs[0].args: must be a list, not text",
        ),
        ({"spec/scheduler/t9kScheduler": {}}, "spec.scheduler.t9kScheduler.queue: is required"),
        (
            {"spec/scheduler/t9kScheduler": {"queue": "a", "priority": 101}},
            "spec.scheduler.t9kScheduler.priority: must be at most 100",
        ),
        (
            {"spec/scheduler/t9kScheduler": {"queue": "a", "priority": -1}},
            "spec.scheduler.t9kScheduler.priority: must be 0 or more, not -1",
        ),
        (
            {"spec/runPolicy/cleanUpWorkers": "unfinished"},
            f'spec.runPolicy.cleanUpWorkers: {OLDER}true for "all", false for "none", '
            'and cleanPodPolicy: Running for "unfinished"',
        ),
        (
            {"spec/runPolicy/cleanUpWorkers": 1},
            "spec.runPolicy.cleanUpWorkers: must be true or false, not the number 1",
        ),
        ({"spec/runPolicy/backoffLimit": -1}, "spec.runPolicy.backoffLimit: must be 0 or more, not -1"),
    ],
)
def test_both_generations(version: str, changes: dict[str, Any], expected: str) -> None:
    assert problems(mpijob(version, changes)) == [expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec/worker": ABSENT}, "spec.worker: is required (or replicaSpecs, in the API's newer generation)"),
        ({"spec/worker": 3}, "spec.worker: must be an object, not the number 3"),
        ({"spec/worker/replicas": 0}, "spec.worker.replicas: must be 1 or more, not 0"),
        ({"spec/worker/replicas": 20001}, "spec.worker.replicas: must be at most 20000"),
        ({"spec/worker/cmd": ABSENT}, f"spec.worker.cmd: {NO_PROGRAM}"),
        ({"spec/worker/cmd": "/pi"}, "spec.worker.cmd: must be a list, not text"),
        ({"spec/worker/cmd": ["/pi", 3]}, "spec.worker.cmd[1]: must be text, not the number 3"),
        ({"spec/worker/extraMPIArgs": ["-N", 3]}, "spec.worker.extraMPIArgs[1]: must be text, not the number 3"),
        ({"spec/mca": {"a": 1}}, "spec.mca[a]: must be text, not the number 1"),
        ({"spec/mpiHome": "usr"}, "spec.mpiHome: must be an absolute path"),
        (
            {"spec/worker/processesPerWorker": 3},
            f'spec.worker.processesPerWorker: {OLDER}write extraMPIArgs: ["-N", "<processes>"]',
        ),
        (
            {"spec/worker/processRecovery": {"enable": True}},
            f"spec.worker.processRecovery: {OLDER}"
            'write extraMPIArgs: ["--enable-recovery", "--max-restarts", "<limit>"]',
        ),
        (
            {f"{CONTAINER}/name": "worker"},
            'spec.worker.template.spec.containers: one must be named "mpi-worker", in which the processes run; '
            "there is worker",
        ),
        ({f"{CONTAINER}/name": ABSENT}, "spec.worker.template.spec.containers[0].name: is required"),
        ({"spec/worker/template": ABSENT}, "spec.worker.template.spec.containers: must have at least one container"),
        ({"spec/mpiConfig": {}}, f"spec.mpiConfig: {MIXED} spec.worker: use fields of one generation"),
        ({"spec/replicaSpecs": []}, f"spec.replicaSpecs: {MIXED} spec.worker: use fields of one generation"),
    ],
)
def test_generation_2(changes: dict[str, Any], expected: str) -> None:
    assert problems(mpijob("t9k", changes)) == [expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spec/mca": {"btl": "self"}}, f"spec.replicaSpecs: {MIXED} spec.mca: use fields of one generation"),
        ({"spec/mpiHome": "/usr"}, f"spec.replicaSpecs: {MIXED} spec.mpiHome: use fields of one generation"),
        ({"spec/mpiConfig": []}, "spec.mpiConfig: must be an object, not a list"),
        ({"spec/mpiConfig/script": []}, f"spec.mpiConfig.script: {NO_PROGRAM}"),
        ({"spec/mpiConfig/home": "usr"}, "spec.mpiConfig.home: must be an absolute path"),
        ({"spec/replicaSpecs": {}}, "spec.replicaSpecs: must be a list, not an object"),
        ({"spec/replicaSpecs": []}, "spec.replicaSpecs: must have one of type worker"),
        ({f"{LAUNCHER}/type": "driver"}, 'spec.replicaSpecs[1].type: must be launcher or worker, not "driver"'),
        ({f"{LAUNCHER}/type": "worker"}, 'spec.replicaSpecs[1].type: "worker" is there twice'),
        ({f"{LAUNCHER}/replicas": 2}, "spec.replicaSpecs[1].replicas: must be 1"),
        (
            {f"{LAUNCHER}/template/spec/imagePullSecrets": [{"name": ["a"]}, {}]},
            "spec.replicaSpecs[1].template.spec.imagePullSecrets[0].name: must be text, not a list",
        ),
        (
            {f"{LAUNCHER}/template/spec/containers": [{}]},
            "spec.replicaSpecs[1].template.spec.containers[0].name: is required",
        ),
        (
            {f"{LAUNCHER}/restartPolicy/policy": "ExitCode"},
            'spec.replicaSpecs[1].restartPolicy.policy: must be Never, OnFailure or Always, not "ExitCode"',
        ),
        ({f"{WORKER}/restartPolicy": "Never"}, "spec.replicaSpecs[0].restartPolicy: must be an object, not text"),
        ({f"{WORKER}/restartPolicy/limit": -1}, "spec.replicaSpecs[0].restartPolicy.limit: must be 0 or more, not -1"),
        (
            {f"{WORKER}/template/spec/containers/0/name": "mpi"},
            'spec.replicaSpecs[0].template.spec.containers: one must be named "worker" or "mpi-worker", in which the '
            "processes run; there is mpi",
        ),
    ],
)
def test_generation_3(changes: dict[str, Any], expected: str) -> None:
    assert problems(mpijob("t9k-3", changes)) == [expected]


def test_all_problems_are_told_at_once() -> None:
    changes = {"spec/worker/replicas": -1, "spec/worker/cmd": ABSENT, "spec/rbac": "?", f"{CONTAINER}/name": "x"}
    assert sorted(one.partition(": ")[0] for one in problems(mpijob("t9k", changes))) == [
        "spec.rbac",
        "spec.worker.cmd",
        "spec.worker.replicas",
        "spec.worker.template.spec.containers",
    ]


@pytest.mark.parametrize(
    ("changes", "pause", "debug"),
    [
        (
            {"spec/runMode": {"debug": {"enabled": True}, "pause": {"enabled": True}}},
            "spec.runMode.pause.enabled",
            "spec.runMode.debug.enabled",
        ),
        (
            {"spec/runMode/debug/enabled": True, **annotated(pause="true")},
            "metadata.annotations[mpi-agents/pause]",
            "spec.runMode.debug.enabled",
        ),
        (
            annotated(debug="true", pause="true"),
            "metadata.annotations[mpi-agents/pause]",
            "metadata.annotations[mpi-agents/debug]",
        ),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v2beta1", *BOTH])
def test_a_job_is_either_debugged_or_paused(version: str, changes: dict[str, Any], pause: str, debug: str) -> None:
    assert problems(mpijob(version, changes)) == [f"{pause}: can't be true while {debug} is: switch one of them off"]
