"""Label and field selectors, by tables."""

from __future__ import annotations

from typing import Any

import pytest

from agents.playground import selector


def pod(**labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "worker-0", "namespace": "jobs", "labels": labels},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("job=pi", True),
        ("job==pi", True),
        ("job = pi", True),
        ("job=tau", False),
        ("job=", False),
        ("job!=pi", False),
        ("job!=tau", True),
        ("missing!=x", True),
        ("job in (pi,tau)", True),
        ("job in (tau)", False),
        ("job notin (tau, e)", True),
        ("job notin (pi)", False),
        ("missing notin (x)", True),
        ("job", True),
        ("missing", False),
        ("!missing", True),
        ("!job", False),
        ("job=pi,role=worker", True),
        ("job=pi,role=launcher", False),
        ("job in (pi,tau),role notin (launcher),!missing", True),
        ("training.kubeflow.org/job-role=worker", True),
    ],
)
def test_labels(text: str, matches: bool) -> None:
    labels = {"job": "pi", "role": "worker", "training.kubeflow.org/job-role": "worker"}
    assert selector.labels(text)(pod(**labels)) is matches


@pytest.mark.parametrize("text", ["job in pi", "=x", "a b", "job in (a", "*"])
def test_labels_that_cannot_be_read(text: str) -> None:
    with pytest.raises(selector.SelectorError):
        selector.labels(text)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=worker-0", True),
        ("metadata.name=worker-1", False),
        ("metadata.name!=worker-1", True),
        ("metadata.namespace=jobs,status.phase=Running", True),
        ("status.phase!=Running", False),
        ("spec.nodeName=node-1", True),
    ],
)
def test_fields(text: str, matches: bool) -> None:
    assert selector.fields(text)(pod()) is matches


def test_a_field_that_pods_cannot_be_selected_by() -> None:
    with pytest.raises(selector.SelectorError, match="field label not supported"):
        selector.fields("spec.hostname=x")


@pytest.mark.parametrize(
    ("text", "name"),
    [("metadata.name=a", "a"), ("status.phase=Running,metadata.name==b", "b"), ("metadata.name!=a", None), ("", None)],
)
def test_the_one_name_asked_for(text: str, name: str | None) -> None:
    assert selector.name_in(text) == name
