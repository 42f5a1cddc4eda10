"""What a launcher may do: exec into pods that are this job's, while it needs them, and into no others."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, batch_job, condition, launcher, own, pod, resource, running, workers
from mpijobs import annotated

from agents.operator.actions import Patch, Plan

Object = dict[str, Any]
POD_1 = ("Pod", "pi-worker-1")


def role_of(*names: str) -> Object:
    """A job's Role that lists these workers."""
    role = plans.observed(running()).role
    assert role is not None
    pods, execs = role["rules"]
    return {**role, "rules": [pods, *([{**execs, "resourceNames": list(names)}] if names else [])]}


def listed(found: Plan) -> list[str] | None:
    """The workers that the Role lists from now on; None where it stays as it is."""
    patches = [one for step in found.steps for one in step if isinstance(one, Patch) and one.kind.name == "Role"]
    rules = [rule for one in patches for rule in one.body["rules"]]
    rules += [rule for name, one in plans.created(found).items() if name.startswith("Role ") for rule in one["rules"]]
    return [name for rule in rules for name in rule.get("resourceNames", [])] if rules or patches else None


def order(found: Plan) -> list[str]:
    return [words for words in plans.actions(found, "create", "patch") if "Config" not in words]


@plans.DIALECTS
@pytest.mark.parametrize(
    "taken", [POD_1, ("Pod", "pi-worker-0"), ("Role", "pi-launcher"), ("RoleBinding", "pi-launcher")]
)
def test_nothing_is_bound_or_launched_beside_a_name_that_another_has(version: str, taken: tuple[str, str]) -> None:
    body = resource(version, None, CREATED)
    present = [one for one in workers() if ("Pod", one["metadata"]["name"]) != taken]
    found = plans.plan(body, *present, name_conflicts=frozenset({taken}), role=None, role_binding=None)
    assert plans.actions(found, "create") == plans.actions(found, "patch") == []
    assert "ErrResourceExists" in plans.conditions(found)
    after = plans.plan(body, *workers(), role=None, role_binding=None)
    assert order(after)[-3:] == [
        "create Role pi-launcher",
        "create RoleBinding pi-launcher",
        f"create {plans.LAUNCHERS[version]}",
    ]
    assert listed(after) == ["pi-worker-0", "pi-worker-1"]


@plans.DIALECTS
@pytest.mark.parametrize(
    "more", [{"name_conflicts": frozenset({POD_1})}, {"rejected": {POD_1: "exceeded quota: small"}}]
)
def test_the_name_of_a_lost_worker_that_cant_be_made_anew_goes_at_once(version: str, more: Any) -> None:
    found = plans.plan(running(version), launcher(), workers()[0], **more)
    assert listed(found) == ["pi-worker-0"]
    assert "patch Role pi-launcher" in plans.steps(found)[1]


@plans.DIALECTS
def test_a_worker_that_is_replaced_at_once_keeps_its_entry(version: str) -> None:
    lost = plans.plan(running(version), launcher(), workers()[0])
    assert listed(lost) is None
    assert "create Pod pi-worker-1" in plans.actions(lost, "create")
    failed = plans.plan(running(version), launcher(), workers()[0], pod("pi-worker-1", "Failed", code=1))
    assert listed(failed) is None


@plans.DIALECTS
def test_the_name_of_a_worker_comes_back_behind_its_pod(version: str) -> None:
    found = plans.plan(running(version), launcher(), workers()[0], role=role_of("pi-worker-0"))
    assert order(found) == ["create Pod pi-worker-1", "patch Role pi-launcher"]
    assert listed(found) == ["pi-worker-0", "pi-worker-1"]


@plans.DIALECTS
def test_no_launcher_is_made_beside_workers_that_the_role_does_not_have_yet(version: str) -> None:
    """Of a job that starts again while the Role has old names: these go first."""
    role = role_of("pi-worker-0", "pi-worker-7")
    found = plans.plan(resource(version, None, CREATED), role=role)
    assert order(found) == ["patch Role pi-launcher", "create Pod pi-worker-0", "create Pod pi-worker-1"]
    assert listed(found) == ["pi-worker-0"]
    empty = {**role, "rules": []}
    found = plans.plan(resource(version, None, CREATED), role=empty)
    assert order(found)[2:] == ["patch Role pi-launcher", f"create {plans.LAUNCHERS[version]}"]


@plans.DIALECTS
def test_a_worker_whose_template_is_faulty_holds_back_the_launcher(version: str) -> None:
    words = 'Pod "pi-worker-1" is invalid: spec.containers[0].image: Required value'
    found = plans.plan(
        resource(version, None, CREATED), workers()[0], rejected={POD_1: words}, role=None, role_binding=None
    )
    assert f"create {plans.LAUNCHERS[version]}" not in plans.actions(found, "create")
    assert listed(found) == ["pi-worker-0"]


@plans.DIALECTS
def test_a_launcher_is_not_made_before_workers_that_are_too_large_for_one_plan(version: str) -> None:
    variables = [{"name": f"V{number}", "value": "x"} for number in range(20_000)]
    container = f"{plans.WORKER}/template/spec/containers/0"
    body = resource(version, {f"{plans.WORKER}/replicas": 6, f"{container}/env": variables}, CREATED)
    present = [pod(f"pi-worker-{index}") for index in range(4)]
    made = f"create {plans.LAUNCHERS[version]}"
    assert made not in plans.actions(plans.plan(body, role=None, role_binding=None), "create")
    after = plans.plan(body, *present, role=None, role_binding=None)
    assert order(after)[-1] == made
    assert listed(after) == [f"pi-worker-{index}" for index in range(6)]


@plans.DIALECTS
@pytest.mark.parametrize("name", ["pi-worker-01", "pi-worker-٣", "pi-worker-1-", "pi-worker-+1", "pi-worker-1e0"])
def test_a_name_that_is_no_workers_counts_for_none(version: str, name: str) -> None:
    body = resource(version, None, CREATED)
    found = plans.plan(
        body, workers()[0], pod(name, deleted=plans.START), rejected={POD_1: "exceeded quota: small"}, **own(version)
    )
    assert listed(found) == ["pi-worker-0"]


@plans.DIALECTS
@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_the_rights_end_with_the_job(version: str, end: str) -> None:
    ended = resource(version, None, CREATED, condition(end), completionTime=plans.START)
    role = role_of("pi-worker-0", "pi-worker-1")
    for left in ([], [launcher("Succeeded", code=0)], [*workers(), launcher("Failed", code=1)]):
        found = plans.plan(ended, *left, role=role, **own(version, batch_job(Complete=1) if left else None))
        assert plans.steps(found) == [["patch Role pi-launcher"]]
        assert listed(found) == []
    # The hub of one that has not ended clears the workers that are there.
    lingers = launcher(code=0)
    assert listed(plans.plan(ended, lingers, *workers(), role=role)) is None
    assert listed(plans.plan(ended, lingers, workers()[0], role=role)) == ["pi-worker-0"]
    assert listed(plans.plan(ended, role={**role, "rules": []}, **own(version))) is None
    assert listed(plans.plan(ended, role=None, **own(version))) is None


@plans.DIALECTS
def test_the_rights_of_a_suspended_job_end_with_its_first_worker(version: str) -> None:
    said = [CREATED, condition("Running", "False"), condition("Suspended")]
    body = resource(version, {"spec/runPolicy/suspend": True}, *said)
    going, role = workers(deleted="2023-11-14T22:15:30Z"), role_of("pi-worker-0", "pi-worker-1")
    assert listed(plans.plan(body, *going, role=role)) is None
    assert listed(plans.plan(body, going[0], role=role)) == []
    assert listed(plans.plan(body, launcher(deleted="2023-11-14T22:15:30Z"), going[0], role=role)) == ["pi-worker-0"]


@plans.DIALECTS
def test_the_rights_of_a_suspended_job_end_with_its_launcher_where_no_worker_was_left(version: str) -> None:
    """They are to list pods, and go as well."""
    said = [CREATED, condition("Running", "False"), condition("Suspended")]
    body, role = resource(version, {"spec/runPolicy/suspend": True}, *said), role_of()
    assert listed(plans.plan(body, launcher(deleted="2023-11-14T22:15:30Z"), role=role)) is None
    late = workers(deleted="2023-11-14T22:15:30Z")
    assert listed(plans.plan(body, launcher(deleted="2023-11-14T22:15:30Z"), *late, role=role)) is None
    assert listed(plans.plan(body, role=role)) == []
    assert listed(plans.plan(body, role={**role, "rules": []})) is None


def test_the_rule_that_someone_else_must_grant_has_no_pod_of_another() -> None:
    body = resource("v1", annotated(rbac="none"), CREATED)
    found = plans.plan(body, workers()[0], name_conflicts=frozenset({POD_1}))
    assert plans.conditions(found)["RbacUnmanaged"][:2] == ("True", "RbacUnmanaged")
    assert '"resourceNames": ["pi-worker-0"]' in plans.conditions(found)["RbacUnmanaged"][2]
    made = plans.plan(resource("v1", annotated(rbac="none")), **plans.NOTHING)
    assert plans.actions(made, "create Role") == []
    assert order(made)[-3:] == ["create Pod pi-worker-0", "create Pod pi-worker-1", "create Pod pi-launcher"]
    assert list(plans.conditions(made)) == ["RbacUnmanaged", "Created"]


UNTENDED = {  # jobs for which nothing else is done, though their launcher runs
    "being deleted": {"metadata/deletionTimestamp": plans.START, "metadata/finalizers": ["example.com/x"]},
    "invalid": {f"{plans.WORKER}/replicas": -1},
    "another's": {"spec/runPolicy/managedBy": "kueue.x-k8s.io/multikueue"},
}


@plans.DIALECTS
@pytest.mark.parametrize("change", UNTENDED.values(), ids=UNTENDED)
def test_rights_to_workers_that_are_gone_end_of_any_job(version: str, change: Object) -> None:
    """Another pod may take the name while a finalizer holds the job, and with it the Role and the launcher."""
    body, role = running(version, change), role_of("pi-worker-0", "pi-worker-1")
    assert listed(plans.plan(body, launcher(), *workers(), role=role)) is None
    assert listed(plans.plan(body, launcher(), workers()[0], role=role)) == ["pi-worker-0"]
    none = plans.plan(body, launcher(), role=role)
    assert listed(none) == []
    (patch,) = (one for step in none.steps for one in step if isinstance(one, Patch))
    assert patch.body == {"metadata": {"uid": "uid-of-role", "resourceVersion": "8"}, "rules": role["rules"][:1]}
    assert listed(plans.plan(body, launcher(), role=role_of())) is None
    assert listed(plans.plan(body, launcher(), role=None)) is None
