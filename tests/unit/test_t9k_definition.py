"""The definition of T9k's MPIJobs: the fields that are read, and what is refused before anything is stored."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml
from mpijobs import mpijob, problems
from test_job_definition import DEFINITION as KUBEFLOWS
from test_job_definition import fields, undescribed, without

from agents.job.conditions import NOT_READY
from agents.job.model import CleanPodPolicy, KeyType, Passwd, RanksLost, Rbac, RestartPolicy, Transport
from agents.job.read import read
from agents.job.run_mode import RoleType
from agents.job.t9k import API_VERSION

FILE = "charts/mpi-agents/definitions/batch.tensorstack.dev_mpijobs.yaml"
with open(os.path.join(os.path.dirname(__file__), "..", "..", FILE), encoding="utf-8") as file:
    DEFINITION: dict[str, Any] = yaml.safe_load(file)
[VERSION] = DEFINITION["spec"]["versions"]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]
SPEC = dict(fields(SCHEMA["properties"]["spec"]))

T9K = {
    *("worker", "worker.replicas", "worker.template", "worker.cmd", "worker.cmd.[]"),
    *("worker.extraMPIArgs", "worker.extraMPIArgs.[]", "mca", "mca.*", "mpiHome"),
    *("mpiConfig", "mpiConfig.mca", "mpiConfig.mca.*", "mpiConfig.home", "mpiConfig.script", "mpiConfig.script.[]"),
    *("mpiConfig.extraArgs", "mpiConfig.extraArgs.[]", "replicaSpecs", "replicaSpecs.[]"),
    *(f"replicaSpecs.[].{key}" for key in ("type", "replicas", "template", "restartPolicy")),
    *(f"replicaSpecs.[].restartPolicy.{key}" for key in ("policy", "limit")),
    *("ssh", "ssh.sshdPath", "ssh.sshAuthMountPath", "runPolicy", "runPolicy.cleanUpWorkers"),
    *("scheduler", "scheduler.t9kScheduler", "scheduler.t9kScheduler.queue", "scheduler.t9kScheduler.priority"),
    *("runMode", "runMode.debug", "runMode.debug.enabled", "runMode.debug.replicaSpecs"),
    *("runMode.pause", "runMode.pause.enabled", "runMode.pause.resumeSpecs"),
    *(f"runMode.debug.replicaSpecs.[]{key}" for key in ("", ".type", ".skipInitContainer", ".command", ".command.[]")),
    *(f"runMode.pause.resumeSpecs.[]{key}" for key in ("", ".type", ".skipInitContainer", ".command", ".command.[]")),
    *("runMode.pause.resumeSpecs.[].args", "runMode.pause.resumeSpecs.[].args.[]"),
}
OLDER = {"worker.processesPerWorker", "worker.processRecovery", "runMode.debug.enable", "runMode.pause.enable"}
OURS = {
    *("transport", "ranksLost", "rbac", "workerAgent", "tools", "tagOutput", "ssh.port", "ssh.keyType", "ssh.passwd"),
    *("runPolicy.cleanPodPolicy", "runPolicy.ttlSecondsAfterFinished", "runPolicy.activeDeadlineSeconds"),
    "runPolicy.backoffLimit",
}


def rules(part: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["message"]) for one in part["x-kubernetes-validations"]]


def test_fields_are_t9ks_and_ours_and_those_to_be_refused() -> None:
    assert set(SPEC) == T9K | OLDER | OURS | {"tools.[]"}


def test_every_field_has_a_description() -> None:
    assert undescribed(SCHEMA) == []


def test_it_is_t9ks_kind_and_has_no_short_names_that_are_kubeflows() -> None:
    spec = DEFINITION["spec"]
    assert f"{spec['group']}/{VERSION['name']}" == API_VERSION
    assert DEFINITION["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (VERSION["served"], VERSION["storage"]) == (True, True)
    assert "shortNames" not in spec["names"]


def test_defaults_are_what_the_reader_takes_by_itself() -> None:
    found = {path: one["default"] for path, one in SPEC.items() if "default" in one}
    assert found == {
        "worker.replicas": 1,
        "replicaSpecs.[].replicas": 1,
        "runPolicy.cleanUpWorkers": False,
        "scheduler.t9kScheduler.priority": 0,
        "runMode.debug.enabled": False,
        "runMode.debug.replicaSpecs.[].skipInitContainer": False,
        "runMode.pause.enabled": False,
        "runMode.pause.resumeSpecs.[].skipInitContainer": False,
    }
    switches = {"debug": {"enabled": False}, "pause": {"enabled": False}}
    named = mpijob("t9k", {"spec/runPolicy": {"cleanUpWorkers": False}, "spec/runMode": switches})
    assert read(named) == read(mpijob("t9k"))


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ("transport", Transport),
        ("rbac", Rbac),
        ("ranksLost", RanksLost),
        ("ssh.keyType", KeyType),
        ("ssh.passwd", Passwd),
        ("runPolicy.cleanPodPolicy", CleanPodPolicy),
        ("replicaSpecs.[].type", RoleType),
        ("replicaSpecs.[].restartPolicy.policy", [one for one in RestartPolicy if one != "ExitCode"]),
        ("runMode.debug.replicaSpecs.[].type", RoleType),
        ("runMode.pause.resumeSpecs.[].type", RoleType),
    ],
)
def test_choices_are_those_that_are_read(field: str, choices: Any) -> None:
    assert SPEC[field]["enum"] == [str(one) for one in choices if one]


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("ssh.port", 1, 65535),
        ("scheduler.t9kScheduler.priority", 0, 100),
        ("worker.replicas", 1, None),
        ("replicaSpecs.[].replicas", 1, None),
        ("replicaSpecs.[].restartPolicy.limit", 0, None),
        ("runPolicy.backoffLimit", 0, None),
    ],
)
def test_numbers_are_within_what_is_read(field: str, least: int, most: int | None) -> None:
    assert (SPEC[field]["minimum"], SPEC[field].get("maximum")) == (least, most)


@pytest.mark.parametrize("field", ["worker.template", "replicaSpecs.[].template"])
def test_pod_templates_are_left_as_they_are(field: str) -> None:
    assert without(SPEC[field], "description") == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("field", "value", "holder"),
    [
        ("worker/processesPerWorker", 3, "worker"),
        ("worker/processRecovery", {"enable": True}, "worker"),
        ("runMode/debug/enable", True, "runMode.debug"),
        ("runMode/pause/enable", True, "runMode.pause"),
    ],
)
def test_older_fields_are_refused_with_the_readers_words(field: str, value: Any, holder: str) -> None:
    [problem] = problems(mpijob("t9k", {f"spec/{field}": value}))
    path, _, words = problem.partition(": ")
    name = path.rpartition(".")[2]
    assert (f"!has(self.{name})", words) in rules(SPEC[holder])


def test_run_mode_is_the_same_in_both_definitions() -> None:
    """But for T9k's older fields, and what its words say of defaults."""
    kubeflows = KUBEFLOWS["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    mode = without(SPEC["runMode"], "description", "enable")
    for part in mode["properties"].values():
        del part["x-kubernetes-validations"]
    assert mode == without(kubeflows["properties"]["runMode"], "description")
    [resume] = [one for one in rules(SCHEMA["properties"]["spec"]) if "resumeSpecs" in one[0]]
    assert resume in rules(kubeflows)


def test_what_kubectl_shows() -> None:
    columns = [(one["name"], one["jsonPath"], one.get("priority", 0)) for one in VERSION["additionalPrinterColumns"]]
    held = ", ".join(f'?(@.type=="{kind}")' for kind in NOT_READY)
    assert columns == [
        ("Phase", ".status.phase", 0),
        ("Reason", f".status.conditions[0:0, {held}].type", 0),
        ("Ready workers", ".status.readyWorkers", 1),
        ("Command", ".status.launchCommand", 1),
        ("Age", ".metadata.creationTimestamp", 0),
    ]
    assert VERSION["subresources"] == {"status": {}}


def test_status_takes_what_later_versions_add() -> None:
    status = SCHEMA["properties"]["status"]
    assert status["x-kubernetes-preserve-unknown-fields"] is True
    assert {"phase", "conditions", "tasks", "aggregate", "readyWorkers", "launchCommand"} < set(status["properties"])


def test_it_is_small_enough_to_apply() -> None:
    assert len(json.dumps(DEFINITION)) < 32 * 1024  # `kubectl apply` keeps it in an annotation, of 256 KiB at most
