"""Plan: what an edit of a job changes of the objects beside its pods, and when."""

from __future__ import annotations

from typing import Any

from operator_stories import (
    CREATED,
    DIALECTS,
    condition,
    launcher,
    observed,
    own,
    planned,
    resource,
    running,
    told,
    workers,
)

from agents.operator.actions import Patch, Plan

ACCOUNT = "spec/mpiReplicaSpecs/Launcher/template/spec/serviceAccountName"


def patches(found: Plan) -> dict[str, Any]:
    return {one.kind.name: one.body for step in found.steps for one in step if isinstance(one, Patch)}


@DIALECTS
def test_a_running_launcher_keeps_its_rights_until_it_is_gone(version: str) -> None:
    """Another ServiceAccount in the template is the next launcher's."""
    before = observed(running(version)).role_binding
    edited = running(version, {ACCOUNT: "mine"})
    assert told(planned(edited, launcher(), *workers(), role_binding=before, **own(version))) == []
    found = planned(edited, *workers(), role_binding=before)
    assert patches(found)["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "mine", "namespace": "default"}
    ]
    binding, made = (
        next(number for number, step in enumerate(told(found)) if any(one.startswith(words) for one in step))
        for words in ("patch RoleBinding", "create")
    )
    assert binding < made


@DIALECTS
def test_a_job_that_goes_on_by_ssh_leaves_nothing_of_exec_in_its_config_map(version: str) -> None:
    """A merge patch leaves what it does not name: the next plan would patch it again, without end."""
    before = observed(resource(version)).config_map
    assert before is not None
    resumed = condition("Suspended", "False", "MPIJobResumed")
    found = planned(resource(version, {"spec/transport": "ssh"}, resumed, CREATED), config_map=before)
    change = patches(found)["ConfigMap"]["data"]
    assert (before["data"].keys() - change.keys(), change["kubexec.sh"]) == (set(), None)
