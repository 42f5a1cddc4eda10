"""Plan: what an edit of a job changes of the objects beside its pods, and when."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, batch_job, condition, launcher, own, resource, running, workers

from agents.job.model import Job
from agents.job.read import read
from agents.operator import objects
from agents.operator.actions import Patch, Plan

ACCOUNT = "spec/mpiReplicaSpecs/Launcher/template/spec/serviceAccountName"


BY = {"mpi-agents/service-account": "pi-launcher"}  # annotation of a launcher
SUBJECT = {"kind": "ServiceAccount", "name": "pi-launcher", "namespace": "default"}


def with_launcher(version: str, **by: str) -> tuple[plans.Object, dict[str, Any]]:
    """A launcher that runs, and its batch Job, annotated so."""
    made = batch_job()
    made["metadata"]["annotations"] = by
    return launcher(annotations=by), own(version, made)


def patches(found: Plan) -> dict[str, Any]:
    return {one.kind.name: one.body for step in found.steps for one in step if isinstance(one, Patch)}


@plans.DIALECTS
def test_a_running_launcher_keeps_its_rights_until_it_is_gone(version: str) -> None:
    """Another ServiceAccount in the template is the next launcher's."""
    before = plans.observed(running(version)).role_binding
    edited = running(version, {ACCOUNT: "mine"})
    one, job = with_launcher(version, **BY)
    assert plans.steps(plans.plan(edited, one, *workers(), role_binding=before, **job)) == []
    if job:  # whose pod is still to come
        assert plans.actions(plans.plan(edited, *workers(), role_binding=before, **job), "patch") == []
    found = plans.plan(edited, *workers(), role_binding=before)
    assert patches(found)["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "mine", "namespace": "default"}
    ]
    binding, made = (
        next(number for number, step in enumerate(plans.steps(found)) if any(one.startswith(words) for one in step))
        for words in ("patch RoleBinding", "create")
    )
    assert binding < made


@plans.DIALECTS
@pytest.mark.parametrize("account", ["pi-launcher", "mine"])
@pytest.mark.parametrize("left", [[], [{**SUBJECT, "name": "other"}], [SUBJECT, SUBJECT], None])
def test_rights_that_someone_takes_from_a_running_launcher_come_back(version: str, account: str, left: Any) -> None:
    """Also those of a launcher whose ServiceAccount the template names no longer; None: the RoleBinding is gone."""
    body = running(version, {ACCOUNT: "mine"} if account == "pi-launcher" else None)
    one, job = with_launcher(version, **{"mpi-agents/service-account": account})
    before = plans.observed(running(version)).role_binding
    assert before is not None
    binding = None if left is None else {**before, "subjects": left}
    found = plans.plan(body, one, *workers(), role_binding=binding, **job)
    wanted = [{**SUBJECT, "name": account}]
    if left is None:
        assert plans.created(found)["RoleBinding pi-launcher"]["subjects"] == wanted
    else:
        assert patches(found)["RoleBinding"]["subjects"] == wanted
        assert patches(found)["RoleBinding"]["metadata"] == {"uid": "uid-of-role_binding", "resourceVersion": "8"}
    settled = {**before, "subjects": wanted}
    assert plans.steps(plans.plan(body, one, *workers(), role_binding=settled, **job)) == []


@plans.DIALECTS
def test_a_launcher_that_was_made_before_its_account_was_written_on_it_keeps_its_rights(version: str) -> None:
    one, job = with_launcher(version)
    seen = plans.observed(running(version))
    edited = running(version, {ACCOUNT: "mine"})
    found = plans.plan(edited, one, *workers(), role_binding=seen.role_binding, **job)
    assert plans.steps(found) == []


@plans.DIALECTS
@pytest.mark.parametrize("left", [[], None])
def test_so_does_what_they_are(version: str, left: Any) -> None:
    before = plans.observed(running(version)).role
    assert before is not None
    one, job = with_launcher(version, **BY)
    role = None if left is None else {**before, "rules": left}
    found = plans.plan(running(version), one, *workers(), role=role, **job)
    back = plans.created(found)["Role pi-launcher"] if left is None else patches(found)["Role"]
    assert back["rules"] == before["rules"]


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k"])
def test_a_job_that_goes_on_by_ssh_leaves_nobody_the_rights_of_its_launcher(version: str) -> None:
    """They go last: an operator that may not delete them has made the pods."""
    seen = plans.observed(resource(version))
    rights: Any = {key: getattr(seen, key) for key in ("role", "role_binding", "service_account")}
    resumed = condition("Suspended", "False", "MPIJobResumed")
    by_ssh = resource(version, {"spec/transport": "ssh"}, resumed, CREATED)
    found = plans.plan(by_ssh, **rights)
    gone = ["delete RoleBinding pi-launcher", "delete Role pi-launcher", "delete ServiceAccount pi-launcher"]
    assert plans.steps(found)[-1] == gone
    assert plans.steps(found)[0] == ["write"]
    assert plans.actions(plans.plan(by_ssh), "delete") == []
    going = {"deletionTimestamp": "2023-11-14T22:15:00Z", "name": "pi-launcher"}
    left: Any = {key: {**one, "metadata": going} for key, one in rights.items()}
    assert plans.actions(plans.plan(by_ssh, **left), "delete") == []


@plans.DIALECTS
def test_a_launcher_by_exec_keeps_its_rights_when_the_job_is_told_to_go_by_ssh(version: str) -> None:
    by_exec = read(running(version))
    assert isinstance(by_exec, Job)
    there = objects.worker(by_exec, 0, plans.SETTINGS)
    there["metadata"]["uid"] = "uid-of-a-worker"
    there["status"] = {"phase": "Running"}
    edited = running(version, {"metadata/annotations": {"mpi-agents/transport": "ssh"}})
    seen = plans.observed(running(version))
    rights: Any = {key: getattr(seen, key) for key in ("role", "role_binding", "service_account")}
    assert plans.actions(plans.plan(edited, there, **rights), "delete") == []


@plans.DIALECTS
def test_a_job_that_goes_on_by_ssh_leaves_nothing_of_exec_in_its_config_map(version: str) -> None:
    """A merge patch leaves what it does not name: the next plan would patch it again, without end."""
    before = plans.observed(resource(version)).config_map
    assert before is not None
    resumed = condition("Suspended", "False", "MPIJobResumed")
    found = plans.plan(resource(version, {"spec/transport": "ssh"}, resumed, CREATED), config_map=before)
    change = patches(found)["ConfigMap"]["data"]
    assert (before["data"].keys() - change.keys(), change["kubexec.sh"]) == (set(), None)
