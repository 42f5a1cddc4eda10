"""The definition of MPIJobs: both versions the same but for their defaults, all of kubeflow's fields, and small."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from mpijobs import mpijob

from agents.job.conditions import NOT_READY
from agents.job.model import KUBEFLOW as DIALECTS
from agents.job.model import Implementation, KeyType, Passwd, RanksLost, Rbac, Transport, WorkerUpdate
from agents.job.read import dialect_of
from agents.job.run_mode import RoleType

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = os.path.join(
    os.path.dirname(__file__), "..", "..", "charts", "mpi-agents", "definitions", "kubeflow.org_mpijobs.yaml"
)
with open(FILE, encoding="utf-8") as file:
    DEFINITION: dict[str, Any] = yaml.safe_load(file)
VERSIONS: dict[str, dict[str, Any]] = {one["name"]: one for one in DEFINITION["spec"]["versions"]}

ROLE = {"replicas", "restartPolicy", "template"}
SCHEDULING = {"minAvailable", "queue", "minResources", "minResources.*", "priorityClass", "scheduleTimeoutSeconds"}
KUBEFLOW = {
    *("slotsPerWorker", "cleanPodPolicy", "mainContainer", "runLauncherAsWorker", "sshAuthMountPath"),
    *("launcherCreationPolicy", "mpiImplementation", "mpiReplicaSpecs", "runPolicy", "runPolicy.schedulingPolicy"),
    *("runPolicy.cleanPodPolicy", "runPolicy.ttlSecondsAfterFinished", "runPolicy.activeDeadlineSeconds"),
    *("runPolicy.backoffLimit", "runPolicy.suspend", "runPolicy.managedBy"),
    *(f"runPolicy.schedulingPolicy.{key}" for key in SCHEDULING),
    *(f"mpiReplicaSpecs.{role}" for role in ("Launcher", "Worker")),
    *(f"mpiReplicaSpecs.{role}.{key}" for role in ("Launcher", "Worker") for key in ROLE),
}
OVERRIDE = ("[]", "[].type", "[].skipInitContainer", "[].command", "[].command.[]")
OURS = {
    *("dialect", "transport", "workerUpdateStrategy", "ranksLost", "rbac", "workerAgent", "ssh", "runMode"),
    *("tools", "tools.[]", "tagOutput"),
    *(f"ssh.{key}" for key in ("sshdPath", "port", "keyType", "passwd")),
    *("runMode.debug", "runMode.debug.enabled", "runMode.debug.replicaSpecs"),
    *("runMode.pause", "runMode.pause.enabled", "runMode.pause.resumeSpecs"),
    *(f"runMode.debug.replicaSpecs.{key}" for key in OVERRIDE),
    *(f"runMode.pause.resumeSpecs.{key}" for key in (*OVERRIDE, "[].args", "[].args.[]")),
}
SWITCHES = {  # the API server writes them only where the object that they stand in is given
    "runMode.debug.enabled": False,
    "runMode.debug.replicaSpecs.[].skipInitContainer": False,
    "runMode.pause.enabled": False,
    "runMode.pause.resumeSpecs.[].skipInitContainer": False,
    "runPolicy.suspend": False,
}


def schema(version: str) -> dict[str, Any]:
    found: dict[str, Any] = VERSIONS[version]["schema"]["openAPIV3Schema"]
    return found


def fields(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All fields under a part of a schema."""
    entries = dict(part.get("properties", {}))
    for key, name in (("additionalProperties", "*"), ("items", "[]")):
        if key in part:
            entries[name] = part[key]
    for key, value in entries.items():
        here = f"{path}.{key}" if path else key
        yield here, value
        yield from fields(value, here)


def spec_fields(version: str) -> dict[str, dict[str, Any]]:
    return dict(fields(schema(version)["properties"]["spec"]))


def without(part: Any, *unwanted: str) -> Any:
    if isinstance(part, dict):
        return {key: without(value, *unwanted) for key, value in part.items() if key not in unwanted}
    return [without(one, *unwanted) for one in part] if isinstance(part, list) else part


def test_both_versions_are_served_and_v2beta1_is_stored() -> None:
    assert [(name, one["served"], one["storage"]) for name, one in VERSIONS.items()] == [
        ("v2beta1", True, True),
        ("v1", True, False),
    ]
    assert "conversion" not in DEFINITION["spec"]


def test_nothing_is_lost_on_the_way_through_the_other_version() -> None:
    assert without(schema("v1"), "default", "description") == without(schema("v2beta1"), "default", "description")


def test_rest_of_the_versions_is_the_same() -> None:
    rests = [without(one, "schema", "name", "storage") for one in VERSIONS.values()]
    assert rests[0] == rests[1]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v1", {"dialect": "v1"}),
        (
            "v2beta1",
            {
                "dialect": "v2beta1",
                "slotsPerWorker": 1,
                "runLauncherAsWorker": False,
                "sshAuthMountPath": "/root/.ssh",
                "launcherCreationPolicy": "AtStartup",
                "mpiImplementation": "OpenMPI",
            },
        ),
    ],
)
def test_defaults_are_each_versions_own(version: str, expected: dict[str, Any]) -> None:
    assert {path: one["default"] for path, one in spec_fields(version).items() if "default" in one} == {
        **expected,
        **SWITCHES,
    }


def test_fields_are_kubeflows_and_ours() -> None:
    assert set(spec_fields("v1")) == KUBEFLOW | OURS


def undescribed(part: dict[str, Any]) -> list[str]:
    """Fields that `kubectl explain` has no sentence for; metadata is the API server's."""
    described = {path for path, one in fields(part) if one.get("description", "").endswith(".")}
    return [path for path, _ in fields(part) if path not in described and not path.endswith(("metadata", "[]", "*"))]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_has_a_description(version: str) -> None:
    assert undescribed(schema(version)) == []


def test_pod_templates_are_left_as_they_are() -> None:
    for role in ("Launcher", "Worker"):
        template = spec_fields("v1")[f"mpiReplicaSpecs.{role}.template"]
        assert without(template, "description") == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_status_takes_what_later_versions_add() -> None:
    status = schema("v1")["properties"]["status"]
    assert status["x-kubernetes-preserve-unknown-fields"] is True
    assert set(status["properties"]) == {
        *("conditions", "replicaStatuses", "readyWorkers", "startTime", "completionTime", "lastReconcileTime"),
        "failedAttempts",
    }


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ("dialect", DIALECTS),
        ("transport", Transport),
        ("rbac", Rbac),
        ("ranksLost", RanksLost),
        ("workerUpdateStrategy", WorkerUpdate),
        ("mpiImplementation", Implementation),
        ("ssh.keyType", KeyType),
        ("ssh.passwd", Passwd),
        ("runMode.debug.replicaSpecs.[].type", RoleType),
        ("runMode.pause.resumeSpecs.[].type", RoleType),
    ],
)
def test_choices_are_those_that_are_read(field: str, choices: Any) -> None:
    assert spec_fields("v1")[field]["enum"] == [str(one) for one in choices if one]


def test_dialect_by_default_is_what_the_reader_takes() -> None:
    for version in VERSIONS:
        default = spec_fields(version)["dialect"]["default"]
        other = next(name for name in VERSIONS if name != version)
        assert dialect_of(mpijob(other, {"spec/dialect": default}), other) == version


def test_what_kubectl_shows_and_scales() -> None:
    for one in VERSIONS.values():
        columns = [(column["name"], column["jsonPath"]) for column in one["additionalPrinterColumns"]]
        held = ", ".join(f'?(@.type=="{kind}")' for kind in NOT_READY)
        assert columns == [
            ("State", f".status.conditions[0:0, {held}, -1:].type"),
            ("Ready workers", ".status.readyWorkers"),
            ("Age", ".metadata.creationTimestamp"),
        ]
        assert one["subresources"]["scale"]["specReplicasPath"] == ".spec.mpiReplicaSpecs.Worker.replicas"
        assert one["subresources"]["status"] == {}
    assert DEFINITION["spec"]["names"]["shortNames"] == ["mj", "mpij"]


def test_it_is_small_enough_to_apply() -> None:
    assert len(json.dumps(DEFINITION)) < 32 * 1024  # `kubectl apply` keeps it in an annotation, of 256 KiB at most
