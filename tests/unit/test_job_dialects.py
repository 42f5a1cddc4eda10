"""Whose meaning a job has, by what is there to tell."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import ABSENT, annotated, mpijob

from agents.job.read import dialect_of, is_managed_elsewhere

V1_WRITER = {"manager": "kubectl", "operation": "Update", "apiVersion": "kubeflow.org/v1"}
V2_WRITER = V1_WRITER | {"apiVersion": "kubeflow.org/v2beta1"}
V1_STATUS = V1_WRITER | {"subresource": "status"}


def managed(*entries: Any) -> dict[str, Any]:
    return {"metadata/managedFields": [*entries]}


@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        ("v1", {}, "v1"),
        ("v2beta1", {}, "v2beta1"),
        # read through one version, made with the other
        ("v2beta1", {"spec/dialect": "v1"}, "v1"),
        ("v1", {"spec/dialect": "v2beta1"}, "v2beta1"),
        ("v2beta1", managed(V1_WRITER), "v1"),
        ("v1", managed(V2_WRITER), "v2beta1"),
        ("v2beta1", managed(V1_STATUS, V2_WRITER), "v2beta1"),
        ("v2beta1", managed(V1_WRITER, V2_WRITER), "v1"),
        # what goes before what
        ("v2beta1", {"spec/dialect": "v2beta1", **managed(V1_WRITER)}, "v2beta1"),
        ("v1", {"spec/dialect": "v1", **annotated(dialect="v2beta1")}, "v2beta1"),
        # what says nothing
        ("v1", {"spec/dialect": "v9"}, "v1"),
        ("v1", {"spec/dialect": {}}, "v1"),
        ("v1", managed({"apiVersion": "kubeflow.org/v1alpha2"}, None, 3), "v1"),
        ("v1", {"metadata/managedFields": {}}, "v1"),
        ("v1", {"metadata/annotations": []}, "v1"),
    ],
)
def test_dialect(version: str, changes: dict[str, Any], expected: str) -> None:
    assert dialect_of(mpijob(version, changes), "v2beta1") == expected


@pytest.mark.parametrize(
    ("version", "served", "expected"),
    [
        (ABSENT, "v1", "v1"),
        (ABSENT, "v2beta1", "v2beta1"),
        (ABSENT, "t9k", "t9k"),
        ("batch.tensorstack.dev/v1beta1", "v2beta1", "t9k"),
        ("batch.tensorstack.dev/v9", "v2beta1", "t9k"),
        ("kubeflow.org/v1", "t9k", "v1"),
    ],
)
def test_the_endpoint_tells_where_nothing_else_does(version: Any, served: str, expected: str) -> None:
    assert dialect_of(mpijob("v1", {"apiVersion": version}), served) == expected


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        (None, False),
        ("", False),
        (3, False),
        ("kubeflow.org/mpi-operator", False),
        ("kubeflow.org/training-operator", False),
        ("mpi-agents/operator", False),
        ("kueue.x-k8s.io/multikueue", True),
        ("example.com/other", True),
    ],
)
def test_managed_elsewhere(manager: Any, expected: bool) -> None:
    assert is_managed_elsewhere(mpijob("v1", {"spec/runPolicy/managedBy": manager})) is expected


@pytest.mark.parametrize("resource", [{}, {"spec": 3}, {"spec": {"runPolicy": []}}])
def test_broken_jobs_are_ours(resource: dict[str, Any]) -> None:
    assert not is_managed_elsewhere(resource)
