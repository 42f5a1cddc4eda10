"""The definition of VirtualClusters: the fields that are read, and what kubectl shows and scales."""

from __future__ import annotations

import os
from typing import Any

import pytest
import yaml
from test_job_definition import FILE, fields, undescribed

from agents.job.application import Wrap
from agents.job.model import KeyType, Passwd, Rbac, Tool, Transport

with open(os.path.join(os.path.dirname(FILE), "mpi-agents.io_virtualclusters.yaml"), encoding="utf-8") as file:
    DEFINITION: dict[str, Any] = yaml.safe_load(file)
INSTALLED, NAME = os.path.join(os.path.dirname(FILE), "..", "..", "..", "install.yaml"), "virtualclusters.mpi-agents.io"
(VERSION,) = DEFINITION["spec"]["versions"]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]
SPEC = dict(fields(SCHEMA["properties"]["spec"]))


def test_it_is_in_install_yaml_as_it_is_here() -> None:
    with open(INSTALLED, encoding="utf-8") as documents:
        (found,) = (one for one in yaml.safe_load_all(documents) if one["metadata"]["name"] == NAME)
    assert found["spec"] == DEFINITION["spec"]
    assert DEFINITION["metadata"] == {"name": NAME}  # the chart's template puts labels there, by text


def test_fields_are_those_that_are_read() -> None:
    assert set(SPEC) == {
        *("nodes", "nodes.replicas", "nodes.slots", "nodes.template", "login", "login.template", "transport"),
        *("dvm", "dvm.enabled", "dvm.args", "dvm.args.[]", "sharedMemory", "suspend", "mainContainer", "rbac"),
        *("ssh", "ssh.sshAuthMountPath", "ssh.sshdPath", "ssh.port", "ssh.keyType", "ssh.passwd"),
        *("application", "application.containers", "application.containers.[]", "application.wrap"),
        *("workerAgent", "tools", "tools.[]"),
    }


def test_every_field_has_a_description() -> None:
    assert undescribed(SCHEMA) == []


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ("transport", Transport),
        ("application.wrap", Wrap),
        ("rbac", Rbac),
        ("ssh.keyType", KeyType),
        ("ssh.passwd", Passwd),
        ("tools.[]", Tool),
    ],
)
def test_choices_are_those_that_are_read(field: str, choices: Any) -> None:
    assert SPEC[field]["enum"] == [str(one) for one in choices if one]


def test_what_kubectl_shows_and_scales() -> None:
    shown = [one["name"] for one in VERSION["additionalPrinterColumns"] if not one.get("priority")]
    assert shown == ["Nodes", "Ready", "Login", "State", "DVM", "Age"]
    assert VERSION["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.nodes.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert DEFINITION["spec"]["names"]["shortNames"] == ["mvc"]
