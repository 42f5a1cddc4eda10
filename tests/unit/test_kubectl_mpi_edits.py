"""What was edited in a job since it was made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_jobs import BEGAN, at, job

from agents.client.edits import Edit, edits
from agents.job.model import LAST_APPLIED
from agents.kubectl_mpi import tables

CREATOR: dict[str, Any] = {"f:spec": {".": {}, "f:slotsPerWorker": {}, "f:runPolicy": {".": {}, "f:suspend": {}}}}
SLOTS: dict[str, Any] = {"f:spec": {"f:slotsPerWorker": {}}}
IMAGE: dict[str, Any] = {
    "f:spec": {"f:mpiReplicaSpecs": {"f:Worker": {"f:template": {"f:spec": {"f:containers": {}}}}}}
}
KEYED: dict[str, Any] = {"f:spec": {"f:list": {'k:{"name":"mpi"}': {".": {}, "f:image": {}}}}}
WORKER = "spec.mpiReplicaSpecs.Worker.template.spec.containers"


def entry(fields: dict[str, Any], after_s: float, manager: str = "kubectl-edit", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": at(after_s), "fieldsV1": fields, **more}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([], []),
        ([entry(CREATOR, 0)], []),
        ([entry(CREATOR, 0), entry(SLOTS, 60)], ["spec.slotsPerWorker (by kubectl-edit)"]),
        ([entry(CREATOR, 60, "kubectl-create")], ["spec (by kubectl-create)"]),
        ([entry(SLOTS, 60, "flux", operation="Apply")], ["spec (by flux)"]),
        ([entry({"f:status": {}}, 60), entry(SLOTS, 60, subresource="status")], []),
        ([entry(KEYED, 60)], ['spec.list[{"name":"mpi"}].image (by kubectl-edit)']),
        (
            [entry(IMAGE, 60), entry(SLOTS, 30, "kueue")],
            ["spec.slotsPerWorker (by kueue)", f"{WORKER} (by kubectl-edit)"],
        ),
    ],
)
def test_who_set_which_fields(entries: list[dict[str, Any]], found: list[str]) -> None:
    resource = job("v1", changes={"metadata/managedFields": entries})
    assert [f"{one.path} (by {one.by})" for one in edits(resource)] == found


def test_what_fields_were_before() -> None:
    resource = job("v1")
    before = json.loads(json.dumps(resource))
    [container] = before["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container |= {"image": "example/mpi:old", "env": [{"name": "TOKEN", "value": "old-secret"}]}
    before["spec"] |= {"slotsPerWorker": 2, "runPolicy": {"suspend": True}}
    resource["spec"] |= {"slotsPerWorker": 4, "runPolicy": {}, "mpiImplementation": "OpenMPI"}
    resource["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "TOKEN", "value": "new-secret"}
    ]
    resource["metadata"] |= {
        "annotations": {LAST_APPLIED: json.dumps(before)},
        "managedFields": [entry(CREATOR, 20, "kubectl-client-side-apply"), entry(SLOTS, 60), entry(IMAGE, 50)],
    }
    assert edits(resource) == [
        Edit("spec.runPolicy.suspend", was="true", now="removed"),
        Edit(f"{WORKER}[0].env[0].value", "kubectl-edit", BEGAN + 50, "…", "…"),
        Edit(f"{WORKER}[0].image", "kubectl-edit", BEGAN + 50, '"example/mpi:old"', '"example/mpi"'),
        Edit("spec.slotsPerWorker", "kubectl-edit", BEGAN + 60, "2", "4"),
    ]


@pytest.mark.parametrize("text", ["{", "[]", "null", 7, "[" * 100_000, '{"spec": 3}'])
def test_an_annotation_that_is_no_job(text: object) -> None:
    assert edits(job("v1", changes={"metadata/annotations": {LAST_APPLIED: text}})) in (
        [],
        [Edit("spec", was="3", now="…")],
    )


def test_lines_are_bounded_and_printable() -> None:
    fields: dict[str, Any] = {f"f:{'x' * 500}\x1b{number}": {} for number in range(50)}
    lines = tables.edits(edits(job("v1", changes={"metadata/managedFields": [entry({"f:spec": fields}, 60)]})), BEGAN)
    assert len(lines) == 11
    assert lines[-1] == "and 40 more"
    assert all(line.isprintable() and len(line) < 300 for line in lines)
    assert tables.edits([], BEGAN) == ["fields unknown (edited by you, a queue or a pause)"]
    assert tables.edits([Edit("spec.x", was="1", now="2")], BEGAN) == ["spec.x: 2, was 1"]
