"""What is said of a job that is left to another operator, and whose it is then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from mpijobs import mpijob

from agents.job.read import read
from agents.operator.actions import Create, Plan, WriteStatus
from agents.operator.other_operators import has_our_status
from agents.operator.plan import OTHER_OPERATOR_MANAGER, leave_to_others, plan
from agents.operator.planning.view import Observed
from agents.operator.settings import PodSettings

Body = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC).timestamp()
SEEN = ["Lease mpi-operator/mpi-operator", "Deployment kubeflow/training-operator"]
VERSIONS = pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k", "t9k-3"])


def left(version: str, **more: Any) -> Body:
    """A job that nobody has started, and that was created at NOW."""
    made = mpijob(version)
    made["metadata"] |= {"resourceVersion": "7", "creationTimestamp": "2026-01-01T12:00:00Z"}
    return made | more


def told(version: str, body: Body, after_s: float = 6, seen: list[str] = SEEN) -> Plan:
    return leave_to_others(read(body), body, seen, NOW + after_s)


def written(found: Plan, body: Body, manager: str = "") -> Body:
    """The job as that plan leaves it."""
    ((write,), events) = found.steps
    assert isinstance(write, WriteStatus)
    assert len(events) == 1
    entry = {"manager": write.manager or "mpi-agents", "operation": "Update", "subresource": "status"}
    metadata = body["metadata"] | {"managedFields": [entry | ({"manager": manager} if manager else {})]}
    return body | {"metadata": metadata, "status": write.status}


@VERSIONS
def test_a_job_that_nobody_begins_says_to_whom_it_is_left(version: str) -> None:
    body = left(version)
    assert told(version, body, 0) == told(version, body, 4.9) == Plan((), NOW + 5)
    found = told(version, body, 5)
    after = written(found, body)
    (condition,) = [one for one in after["status"]["conditions"] if one["status"] == "True"]
    assert (condition["type"], condition["reason"]) == ("OtherOperator", "OtherOperator")
    for words in ("Lease mpi-operator in namespace mpi-operator", "Deployment training-operator in namespace kubeflow"):
        assert words in condition["message"]
    assert "runPolicy.managedBy mpi-agents/operator" in condition["message"]
    assert "mpi-agents/adopt=true" in condition["message"]
    assert "\n" not in condition["message"]
    assert told(version, after, 60) == Plan()
    again = told(version, after, 60, SEEN[:1])  # one of them has gone
    assert "training-operator" not in str(again.steps)


@VERSIONS
@pytest.mark.parametrize("after_s", [-3600, 5, 3600])
def test_a_job_is_told_of_whatever_the_clock(version: str, after_s: float) -> None:
    """At once where its time of creation lies ahead of us."""
    assert told(version, left(version), after_s).steps


@VERSIONS
@pytest.mark.parametrize("manager", ["", "mpi-agents"])  # also where its name is lost
def test_a_job_that_was_left_begins_when_the_other_operator_has_gone(version: str, manager: str) -> None:
    after = written(told(version, left(version)), left(version), manager)
    assert not has_our_status(after)
    found = plan(read(after), Observed(after), PodSettings("i"), NOW + 100)
    first = found.steps[0][0]
    assert isinstance(first, WriteStatus)
    assert first.manager == ""
    assert "OtherOperator" not in str(first.status)
    assert any(isinstance(one, Create) for step in found.steps for one in step)


@VERSIONS
def test_a_job_that_was_left_and_can_no_more_be_read_says_that_alone(version: str) -> None:
    after = written(told(version, left(version)), left(version))
    after["spec"] = {"slotsPerWorker": -1}
    assert told(version, left(version, spec=after["spec"])).steps
    first = plan(read(after), Observed(after), PodSettings("i"), NOW + 100).steps[0][0]
    assert isinstance(first, WriteStatus)
    assert "OtherOperator" not in str(first.status)
    assert "ValidationError" in str(first.status)


@VERSIONS
@pytest.mark.parametrize("manager", ["mpi-operator", "training-operator", "kubectl"])
def test_a_job_that_another_has_begun_stays_theirs_whatever_we_had_said(version: str, manager: str) -> None:
    after = written(told(version, left(version)), left(version))
    theirs = {"type": "Initialized" if version.startswith("t9k") else "Created", "status": "True"}
    after["status"]["conditions"].append(theirs)
    after["metadata"]["managedFields"].append({"manager": manager, "subresource": "status"})
    assert told(version, after, 100) == Plan()
    assert not has_our_status(after)
    assert plan(read(after), Observed(after), PodSettings("i"), NOW + 100) == Plan()


@VERSIONS
def test_nothing_is_said_of_a_job_that_is_not_ours_to_speak_of(version: str) -> None:
    plain = left(version)
    assert told(version, plain, seen=[]) == Plan()
    assert told(version, plain | {"status": {"conditions": [{"type": "Running", "status": "True"}]}}) == Plan()
    going = left(version)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:03Z"
    assert told(version, going) == Plan()
    if not version.startswith("t9k"):
        managed = left(version)
        managed["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
        assert told(version, managed) == Plan()


@pytest.mark.parametrize("manager", ["mpi-agents", OTHER_OPERATOR_MANAGER])
@pytest.mark.parametrize("also", [[], ["Created"]])
def test_a_job_of_which_we_have_said_no_more_than_that_it_is_left_is_not_ours(manager: str, also: list[str]) -> None:
    metadata = {"name": "pi", "managedFields": [{"manager": manager, "subresource": "status"}]}
    left = {"metadata": metadata} | {"status": {"conditions": [{"type": one} for one in ("OtherOperator", *also)]}}
    assert has_our_status(left) is (manager == "mpi-agents" and bool(also))
