"""When a job's status is written. At first: a client that creates a job and then updates it meets no other version.

Pods are made at once all the same, behind a dry run of the write: of a job that has changed it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, launcher, resource, running, workers

from agents.operator.actions import Plan, WriteStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

BORN = "2023-11-14T22:15:00Z"  # NOW
SUSPENDED = {"spec/runPolicy/suspend": True}
SOON = pytest.mark.parametrize("later_s", [0.0, 0.5, 1.0, 1.9, 2.2])  # it was created up to 1 s after that time
DUE = plans.NOW + 2.25


def new(version: str, changes: Mapping[str, Any] | None = None, born: str = BORN) -> Object:
    body = resource(version, dict(changes or {}))
    body["metadata"]["creationTimestamp"] = born
    return body


@SOON
@pytest.mark.parametrize("changes", [{}, SUSPENDED, {"spec/slotsPerWorker": -1}])
@plans.DIALECTS
def test_no_version_but_the_clients_own_is_made_at_first(version: str, changes: Object, later_s: float) -> None:
    """Running, suspended, invalid: nothing is written to the job."""
    body = new(version, changes)
    found = plans.plan(body, now=plans.NOW + later_s, **plans.NOTHING)
    writes = [one for step in found.steps for one in step if isinstance(one, WriteStatus)]
    assert all((one.status, one.resource_version) == ({}, "7") for one in writes)
    assert (plans.events(found), found.requeue_at) == ([], DUE)


@plans.DIALECTS
def test_a_suspended_job_is_said_to_be_so_in_one_write(version: str) -> None:
    body = new(version, SUSPENDED)
    assert plans.plan(body, now=DUE - 0.1, **plans.NOTHING) == Plan((), DUE)
    found = plans.plan(body, now=DUE, **plans.NOTHING)
    assert plans.steps(found) == [["write"], ["tell MPIJobCreated", "tell MPIJobSuspended"]]
    assert {"Created", "Suspended"} <= {
        kind for kind, (status, *_) in plans.conditions(found).items() if status == "True"
    }
    body |= {"status": plans.status(found)}
    body["metadata"]["managedFields"] = plans.OURS
    assert plans.plan(body, now=DUE, **plans.NOTHING) == Plan()


@pytest.mark.parametrize("status", [None, {}])
@plans.DIALECTS
def test_pods_are_made_at_once_and_for_no_other_job_than_was_read(version: str, status: Object | None) -> None:
    body = new(version) | ({} if status is None else {"status": status})
    found = plans.plan(body, **plans.NOTHING)
    assert plans.steps(found)[0] == ["write"]
    assert found.steps[0][0] == WriteStatus({}, "7", "no pods are created from a stale plan")
    made = [f"create {plans.LAUNCHERS[version]}", "create Pod pi-worker-0", "create Pod pi-worker-1"]
    assert sorted(plans.actions(found, "create Pod", "create Job")) == sorted(made)


@plans.DIALECTS
def test_the_first_status_has_all_that_has_happened_since(version: str) -> None:
    made_at = "2023-11-14T22:15:01Z"
    body, pods = new(version), [launcher("Pending", created=made_at), *workers(phase="Pending", created=made_at)]
    assert plans.plan(body, *pods, now=DUE - 0.1) == Plan((), DUE)
    found = plans.plan(body, *pods, now=DUE)
    assert plans.conditions(found)["WorkersReady"][:2] == ("False", "WaitingForWorkers")
    assert plans.status(found)["startTime"] == made_at


@plans.DIALECTS
def test_what_a_client_waits_for_is_said_at_once(version: str) -> None:
    runs = plans.plan(new(version), launcher(), *workers(), now=plans.NOW + 1)
    assert plans.conditions(runs)["Running"][0] == "True"
    over = plans.plan(new(version), launcher("Succeeded", code=0), *workers(), now=plans.NOW + 1)
    assert plans.conditions(over)["Succeeded"][0] == "True"
    assert plans.events(over)[0][1] == "MPIJobCreated"


@plans.DIALECTS
def test_a_job_that_is_suspended_while_it_starts_is_told_to_stop_at_once(version: str) -> None:
    found = plans.plan(new(version, SUSPENDED), launcher(), *workers(), now=plans.NOW + 1)
    assert plans.conditions(found)["Suspended"][0] == "True"
    assert plans.actions(found, "delete")


def test_what_the_status_alone_remembers_is_written_before_it_is_needed() -> None:
    """That the launcher was created in debug mode; that a paused job is resumed with its resumeSpecs."""
    debug = {"metadata/annotations": {"mpi-agents/debug": "true"}}
    assert plans.conditions(plans.plan(new("v2beta1", debug), **plans.NOTHING))["Debugging"][0] == "True"


@pytest.mark.parametrize("born", ["2023-11-14T22:14:57Z", "2023-11-14T22:15:04Z", "2023-11-14T23:15:00Z", "", None])
@plans.DIALECTS
def test_a_job_from_before_or_by_another_clock_is_written_now(version: str, born: str | None) -> None:
    body = new(version, SUSPENDED, born or "")
    if born is None:
        del body["metadata"]["creationTimestamp"]
    assert plans.conditions(plans.plan(body, **plans.NOTHING))["Suspended"][0] == "True"


@plans.DIALECTS
def test_a_status_that_someone_has_emptied_is_written_now(version: str) -> None:
    body = new(version, SUSPENDED) | {"status": {}}
    body["metadata"]["managedFields"] = plans.OURS
    assert plans.conditions(plans.plan(body, **plans.NOTHING))["Suspended"][0] == "True"


@pytest.mark.parametrize("ahead_s", [-3600, -5, -1.5, 1.5, 5, 3600])
@pytest.mark.parametrize("changes", [{}, SUSPENDED, {"spec/slotsPerWorker": -1}])
@plans.DIALECTS
def test_whatever_our_clock_says_a_client_has_a_second(version: str, changes: Object, ahead_s: float) -> None:
    seen_at = plans.NOW + ahead_s
    for later_s in (0.0, 1.2):
        found = plans.plan(new(version, changes), now=seen_at + later_s, seen_at=seen_at, **plans.NOTHING)
        assert all(one.status == {} for step in found.steps for one in step if isinstance(one, WriteStatus))
        due_at = found.requeue_at or 0.0
        assert seen_at + 1.25 <= due_at < seen_at + 6
    assert plans.conditions(plans.plan(new(version, changes), now=due_at, seen_at=seen_at, **plans.NOTHING))


# By a leader whose clock is behind the last leader's.

LATER = "2023-11-14T22:16:40Z"  # 100 s after NOW


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
@plans.DIALECTS
def test_how_a_job_ended_is_written_before_its_pods_go_whatever_the_clock_says(version: str, policy: str) -> None:
    """Without that the next plan would find no launcher, and run the job once more."""
    changes = {"spec/runPolicy/cleanPodPolicy": policy}
    body = resource(version, changes, READY, CREATED, RUNNING, lastReconcileTime=LATER)
    found = plans.plan(body, launcher("Succeeded", code=0), *workers())
    assert plans.steps(found)[0] == ["write"]
    assert [one["type"] for one in plans.status(found)["conditions"]][-1] == "Succeeded"
    removed = {
        "None": [],
        "Running": ["delete all workers"],
        "All": ["delete all workers", f"delete {plans.LAUNCHERS[version]}"],
    }
    assert plans.steps(found)[1] == ["tell MPIJobSucceeded", *removed[policy]]


def test_what_is_not_urgent_is_written_as_well_and_tells_the_present_time() -> None:
    """Else nothing would be written until the last leader's time is reached."""
    body = running("v1") | {"status": running("v1")["status"] | {"lastReconcileTime": LATER}}
    found = plans.plan(body, launcher(), *workers(ready=False))
    assert plans.status(found)["lastReconcileTime"] == "2023-11-14T22:15:00Z"
    settled = plans.plan(body, launcher(), *workers())
    assert (settled.steps, settled.requeue_at) == ((), None)
