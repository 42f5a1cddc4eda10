"""The definitions: the fields that are read, their defaults and choices, what kubectl shows, and what is refused.

Kubeflow's has two versions, the same except their defaults; T9k's MPIJobs and VirtualClusters have one each.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from mpijobs import mpijob, problems

from agents.job.application import Wrap
from agents.job.conditions import NOT_READY
from agents.job.model import KUBEFLOW as DIALECTS
from agents.job.model import (
    CleanPodPolicy,
    Implementation,
    KeyType,
    Passwd,
    RanksLost,
    Rbac,
    RestartPolicy,
    Tool,
    Transport,
    WorkerUpdate,
)
from agents.job.read import dialect_of, read
from agents.job.run_mode import RoleType
from agents.job.t9k import API_VERSION
from images.catalog import ROOT
from tests import yamls

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = os.path.join(ROOT, "charts", "mpi-agents", "definitions")


def load(name: str) -> dict[str, Any]:
    with open(os.path.join(FOLDER, f"{name}.yaml"), encoding="utf-8") as file:
        return dict(yamls.load(file))


DEFINITIONS = {
    "kubeflow": load("kubeflow.org_mpijobs"),
    "t9k": load("batch.tensorstack.dev_mpijobs"),
    "virtual": load("mpi-agents.io_virtualclusters"),
}
VERSIONS: dict[str, dict[str, Any]] = {one["name"]: one for one in DEFINITIONS["kubeflow"]["spec"]["versions"]}
(T9KS,) = DEFINITIONS["t9k"]["spec"]["versions"]
(VIRTUALS,) = DEFINITIONS["virtual"]["spec"]["versions"]
ALL = [*VERSIONS.values(), T9KS, VIRTUALS]

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
RUN_MODE = {
    *("runMode", "runMode.debug", "runMode.debug.enabled", "runMode.debug.replicaSpecs"),
    *("runMode.pause", "runMode.pause.enabled", "runMode.pause.resumeSpecs"),
    *(f"runMode.debug.replicaSpecs.{key}" for key in OVERRIDE),
    *(f"runMode.pause.resumeSpecs.{key}" for key in (*OVERRIDE, "[].args", "[].args.[]")),
}
OURS = {
    *("dialect", "transport", "workerUpdateStrategy", "ranksLost", "rbac", "workerAgent", "ssh"),
    *("tools", "tools.[]", "tagOutput"),
    *(f"ssh.{key}" for key in ("sshdPath", "port", "keyType", "passwd")),
    *RUN_MODE,
}
SWITCHES = {  # the API server writes them only where the object that they stand in is given
    "runMode.debug.enabled": False,
    "runMode.debug.replicaSpecs.[].skipInitContainer": False,
    "runMode.pause.enabled": False,
    "runMode.pause.resumeSpecs.[].skipInitContainer": False,
}
T9K = {
    *("worker", "worker.replicas", "worker.template", "worker.cmd", "worker.cmd.[]"),
    *("worker.extraMPIArgs", "worker.extraMPIArgs.[]", "mca", "mca.*", "mpiHome"),
    *("mpiConfig", "mpiConfig.mca", "mpiConfig.mca.*", "mpiConfig.home", "mpiConfig.script", "mpiConfig.script.[]"),
    *("mpiConfig.extraArgs", "mpiConfig.extraArgs.[]", "replicaSpecs", "replicaSpecs.[]"),
    *(f"replicaSpecs.[].{key}" for key in ("type", "replicas", "template", "restartPolicy")),
    *(f"replicaSpecs.[].restartPolicy.{key}" for key in ("policy", "limit")),
    *("ssh", "ssh.sshdPath", "ssh.sshAuthMountPath", "runPolicy", "runPolicy.cleanUpWorkers"),
    *("scheduler", "scheduler.t9kScheduler", "scheduler.t9kScheduler.queue", "scheduler.t9kScheduler.priority"),
    *RUN_MODE,
}
OLDER = {"worker.processesPerWorker", "worker.processRecovery", "runMode.debug.enable", "runMode.pause.enable"}
T9KS_OURS = {
    *("transport", "ranksLost", "rbac", "workerAgent", "tools", "tagOutput", "ssh.port", "ssh.keyType", "ssh.passwd"),
    *("runPolicy.cleanPodPolicy", "runPolicy.ttlSecondsAfterFinished", "runPolicy.activeDeadlineSeconds"),
    "runPolicy.backoffLimit",
}
HELD = ", ".join(f'?(@.type=="{kind}")' for kind in NOT_READY)
VIRTUAL = {
    *("nodes", "nodes.replicas", "nodes.slots", "nodes.template", "login", "login.template", "transport"),
    *("dvm", "dvm.enabled", "dvm.args", "dvm.args.[]", "sharedMemory", "suspend", "mainContainer", "rbac"),
    *("ssh", "ssh.sshAuthMountPath", "ssh.sshdPath", "ssh.port", "ssh.keyType", "ssh.passwd"),
    *("application", "application.containers", "application.containers.[]", "application.wrap"),
    *("workerAgent", "tools", "tools.[]"),
}


def schema(version: dict[str, Any]) -> dict[str, Any]:
    return dict(version["schema"]["openAPIV3Schema"])


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


def spec_fields(version: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(fields(schema(version)["properties"]["spec"]))


SPECS = {
    "v1": spec_fields(VERSIONS["v1"]),
    "v2beta1": spec_fields(VERSIONS["v2beta1"]),
    "t9k": spec_fields(T9KS),
    "virtual": spec_fields(VIRTUALS),
}


def without(part: Any, *unwanted: str) -> Any:
    if isinstance(part, dict):
        return {key: without(value, *unwanted) for key, value in part.items() if key not in unwanted}
    return [without(one, *unwanted) for one in part] if isinstance(part, list) else part


def test_both_versions_are_served_and_v2beta1_is_stored() -> None:
    assert [(name, one["served"], one["storage"]) for name, one in VERSIONS.items()] == [
        ("v2beta1", True, True),
        ("v1", True, False),
    ]
    assert "conversion" not in DEFINITIONS["kubeflow"]["spec"]


def test_nothing_is_lost_on_the_way_through_the_other_version() -> None:
    schemas = [without(schema(one), "default", "description") for one in VERSIONS.values()]
    assert schemas[0] == schemas[1]


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
    assert {path: one["default"] for path, one in SPECS[version].items() if "default" in one} == {
        **expected,
        **SWITCHES,
        "runPolicy.suspend": False,
    }


@pytest.mark.parametrize(
    ("definition", "known"),
    [("v1", KUBEFLOW | OURS), ("t9k", T9K | OLDER | T9KS_OURS | {"tools.[]"}), ("virtual", VIRTUAL)],
    ids=["v1", "t9k", "virtual"],
)
def test_fields_are_those_that_are_read_or_refused(definition: str, known: set[str]) -> None:
    assert set(SPECS[definition]) == known


def undescribed(part: dict[str, Any]) -> list[str]:
    """Fields that `kubectl explain` has no sentence for; metadata is the API server's."""
    described = {path for path, one in fields(part) if one.get("description", "").endswith(".")}
    return [path for path, _ in fields(part) if path not in described and not path.endswith(("metadata", "[]", "*"))]


@pytest.mark.parametrize("version", ALL, ids=SPECS.keys())
def test_every_field_has_a_description(version: dict[str, Any]) -> None:
    assert undescribed(schema(version)) == []


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ("v1", "mpiReplicaSpecs.Launcher.template"),
        ("v1", "mpiReplicaSpecs.Worker.template"),
        ("t9k", "worker.template"),
        ("t9k", "replicaSpecs.[].template"),
    ],
)
def test_pod_templates_are_left_as_they_are(definition: str, field: str) -> None:
    template = without(SPECS[definition][field], "description")
    assert template == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("version", "some"),
    [
        (VERSIONS["v1"], {"replicaStatuses", "startTime", "completionTime", "lastReconcileTime", "failedAttempts"}),
        (T9KS, {"phase", "tasks", "aggregate", "launchCommand"}),
    ],
    ids=["v1", "t9k"],
)
def test_status_takes_what_later_versions_add(version: dict[str, Any], some: set[str]) -> None:
    status = schema(version)["properties"]["status"]
    assert status["x-kubernetes-preserve-unknown-fields"] is True
    assert {"conditions", "readyWorkers"} | some <= set(status["properties"])


MPIJOBS_CHOICES: dict[str, Any] = {
    "ranksLost": RanksLost,
    "runMode.debug.replicaSpecs.[].type": RoleType,
    "runMode.pause.resumeSpecs.[].type": RoleType,
}
CHOICES: dict[str, dict[str, Any]] = {
    "v1": {
        **MPIJOBS_CHOICES,
        "dialect": DIALECTS,
        "workerUpdateStrategy": WorkerUpdate,
        "mpiImplementation": Implementation,
    },
    "t9k": {
        **MPIJOBS_CHOICES,
        "runPolicy.cleanPodPolicy": CleanPodPolicy,
        "replicaSpecs.[].type": RoleType,
        "replicaSpecs.[].restartPolicy.policy": [one for one in RestartPolicy if one != "ExitCode"],
    },
    "virtual": {"application.wrap": Wrap, "tools.[]": Tool},
}


@pytest.mark.parametrize("definition", CHOICES)
def test_choices_are_those_that_are_read(definition: str) -> None:
    shared = {"transport": Transport, "rbac": Rbac, "ssh.keyType": KeyType, "ssh.passwd": Passwd}
    for field, choices in {**shared, **CHOICES[definition]}.items():
        assert SPECS[definition][field]["enum"] == [str(one) for one in choices if one], field


def test_dialect_by_default_is_what_the_reader_takes() -> None:
    for version in VERSIONS:
        default = SPECS[version]["dialect"]["default"]
        other = next(name for name in VERSIONS if name != version)
        assert dialect_of(mpijob(other, {"spec/dialect": default}), other) == version


def test_what_kubectl_shows_and_scales() -> None:
    for one in VERSIONS.values():
        columns = [(column["name"], column["jsonPath"]) for column in one["additionalPrinterColumns"]]
        assert columns == [
            ("State", f".status.conditions[0:0, {HELD}, -1:].type"),
            ("Ready workers", ".status.readyWorkers"),
            ("Age", ".metadata.creationTimestamp"),
        ]
        assert one["subresources"]["scale"]["specReplicasPath"] == ".spec.mpiReplicaSpecs.Worker.replicas"
        assert one["subresources"]["status"] == {}
    assert DEFINITIONS["kubeflow"]["spec"]["names"]["shortNames"] == ["mj", "mpij"]


@pytest.mark.parametrize("definition", ["kubeflow", "t9k"])
def test_it_is_small_enough_to_apply(definition: str) -> None:
    """`kubectl apply` keeps it in an annotation, of 256 KiB at most."""
    assert len(json.dumps(DEFINITIONS[definition])) < 32 * 1024


# T9k's.


def rules(part: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["message"]) for one in part["x-kubernetes-validations"]]


def test_it_is_t9ks_kind_and_has_no_short_names_that_are_kubeflows() -> None:
    definition = DEFINITIONS["t9k"]
    spec = definition["spec"]
    assert f"{spec['group']}/{T9KS['name']}" == API_VERSION
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (T9KS["served"], T9KS["storage"]) == (True, True)
    assert "shortNames" not in spec["names"]


def test_t9ks_defaults_are_what_the_reader_takes_by_itself() -> None:
    found = {path: one["default"] for path, one in SPECS["t9k"].items() if "default" in one}
    assert found == {
        "worker.replicas": 1,
        "replicaSpecs.[].replicas": 1,
        "runPolicy.cleanUpWorkers": False,
        "scheduler.t9kScheduler.priority": 0,
        **SWITCHES,
    }
    switches = {"debug": {"enabled": False}, "pause": {"enabled": False}}
    named = mpijob("t9k", {"spec/runPolicy": {"cleanUpWorkers": False}, "spec/runMode": switches})
    assert read(named) == read(mpijob("t9k"))


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
    found = SPECS["t9k"][field]
    assert (found["minimum"], found.get("maximum")) == (least, most)


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
    assert (f"!has(self.{name})", words) in rules(SPECS["t9k"][holder])


def test_run_mode_is_the_same_for_both_kinds_of_mpijobs() -> None:
    """But for T9k's older fields, and what its words say of defaults."""
    kubeflows = schema(VERSIONS["v2beta1"])["properties"]["spec"]
    mode = without(SPECS["t9k"]["runMode"], "description", "enable")
    for part in mode["properties"].values():
        del part["x-kubernetes-validations"]
    assert mode == without(kubeflows["properties"]["runMode"], "description")
    [resume] = [one for one in rules(schema(T9KS)["properties"]["spec"]) if "resumeSpecs" in one[0]]
    assert resume in rules(kubeflows)


def test_what_kubectl_shows_of_t9ks() -> None:
    columns = [(one["name"], one["jsonPath"], one.get("priority", 0)) for one in T9KS["additionalPrinterColumns"]]
    assert columns == [
        ("Phase", ".status.phase", 0),
        ("Reason", f".status.conditions[0:0, {HELD}].type", 0),
        ("Ready workers", ".status.readyWorkers", 1),
        ("Command", ".status.launchCommand", 1),
        ("Age", ".metadata.creationTimestamp", 0),
    ]
    assert T9KS["subresources"] == {"status": {}}


# Virtual clusters.


def test_the_definition_is_in_install_yaml_as_it_is_here() -> None:
    definition, name = DEFINITIONS["virtual"], "virtualclusters.mpi-agents.io"
    with open(os.path.join(ROOT, "install.yaml"), encoding="utf-8") as documents:
        (found,) = (one for one in yamls.load_all(documents) if one["metadata"]["name"] == name)
    assert found["spec"] == definition["spec"]
    assert definition["metadata"] == {"name": name}  # the chart's template puts labels there, by text


def test_what_kubectl_shows_and_scales_of_virtual_clusters() -> None:
    shown = [one["name"] for one in VIRTUALS["additionalPrinterColumns"] if not one.get("priority")]
    assert shown == ["Nodes", "Ready", "Login", "State", "DVM", "Age"]
    assert VIRTUALS["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.nodes.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert DEFINITIONS["virtual"]["spec"]["names"]["shortNames"] == ["mvc"]
