"""Plan: all of runPolicy, for both dialects."""

from __future__ import annotations

from typing import Any

import pytest
from operator_stories import (
    ALL_ACTIVE,
    CREATED,
    DIALECTS,
    LAUNCHERS,
    NOTHING,
    NOW,
    READY,
    RUNNING,
    START,
    WORKER,
    condition,
    events,
    launcher,
    own,
    planned,
    pod,
    resource,
    running,
    stated,
    told,
    workers,
    written,
)

from agents.operator.actions import Plan
from agents.operator.settings import PodSettings


@pytest.mark.parametrize(
    ("policy", "pods", "removed"),
    [
        ("None", ["Running", "Running", "Failed"], []),
        ("Running", ["Running", "Pending"], ["delete all workers"]),
        ("Running", ["Running", "Pending", "Failed"], ["delete Pod pi-worker-0", "delete Pod pi-worker-1"]),
        ("Running", ["Succeeded", "Failed"], []),
        ("Running", ["Running"], ["delete Pod pi-worker-0"]),
        ("All", ["Succeeded", "Failed", "Running"], ["delete all workers", "delete LAUNCHER"]),
    ],
)
@DIALECTS
def test_clean_pod_policy(version: str, policy: str, pods: list[str], removed: list[str]) -> None:
    """Behind the status that says how the job ended, and again by the next plan if a crash came between."""
    present = [pod(f"pi-worker-{index}", phase) for index, phase in enumerate(pods)]
    changes = {"spec/runPolicy/cleanPodPolicy": policy, f"{WORKER}/replicas": len(pods)}
    removed = [one.replace("LAUNCHER", LAUNCHERS[version]) for one in removed]
    found = planned(resource(version, changes, CREATED), launcher("Succeeded", code=0), *present, **own(version))
    assert told(found)[0] == ["write"]
    assert [one for one in told(found)[1] if not one.startswith("tell")] == removed
    ended = resource(version, changes, CREATED, condition("Succeeded"), completionTime=START)
    again = planned(ended, launcher("Succeeded", code=0), *present, **own(version))
    assert told(again) == ([removed] if removed else [])


def test_running_gives_a_launcher_a_minute_to_end() -> None:
    body = resource(
        "v1", {"spec/runPolicy/cleanPodPolicy": "Running"}, CREATED, condition("Succeeded"), completionTime=START
    )
    assert planned(body, launcher(code=0), now=NOW - 41) == Plan((), NOW - 40)
    assert told(planned(body, launcher(code=0), now=NOW - 40)) == [["delete Pod pi-launcher"]]


@DIALECTS
def test_the_pod_group_goes_with_the_pods(version: str) -> None:
    group = {"metadata": {"name": "pi", "uid": "uid-of-group", "resourceVersion": "3"}}
    settings = PodSettings(image="i", gang_scheduler="volcano")
    for policy, removed in (("None", []), ("Running", [["delete PodGroup pi"]])):
        body = resource(
            version, {"spec/runPolicy/cleanPodPolicy": policy}, CREATED, condition("Failed"), completionTime=START
        )
        assert told(planned(body, pod_group=group, settings=settings)) == removed


@DIALECTS
def test_the_job_itself_goes_when_its_time_is_over(version: str) -> None:
    changes = {"spec/runPolicy/ttlSecondsAfterFinished": 200}
    body = resource(version, changes, CREATED, condition("Failed"), completionTime=START)
    assert planned(body) == Plan((), NOW + 100)
    assert told(planned(body, now=NOW + 100)) == [["delete MPIJob pi"]]


@DIALECTS
def test_the_deadline_counts_from_the_start(version: str) -> None:
    changes = {"spec/runPolicy/activeDeadlineSeconds": 150}
    body = running(version, changes)
    assert planned(body, launcher(), *workers(), **own(version)) == Plan((), NOW + 50)
    found = planned(body, launcher(), *workers(), now=NOW + 50, **own(version))
    words = {
        "v1": "Job pi has failed because it was active longer than specified deadline",
        "v2beta1": "Job was active longer than specified deadline",
    }[version]
    assert stated(found)["Failed"] == ("True", "DeadlineExceeded", words)
    assert written(found)["completionTime"] == "2023-11-14T22:15:50Z"
    # training-operator stops all that runs, whatever the policy; the workers of v2beta1 are the policy's
    gone = {"v1": ["delete all workers", "delete Pod pi-launcher"], "v2beta1": ["delete Job pi-launcher"]}[version]
    assert told(found) == [["write"], ["tell DeadlineExceeded", *gone]]


@DIALECTS
def test_a_suspended_job_has_no_pods(version: str) -> None:
    body = resource(version, {"spec/runPolicy/suspend": True}, READY, CREATED, RUNNING)
    found = planned(body, launcher(), *workers(), **own(version))
    assert told(found) == [["write"], ["tell MPIJobSuspended", f"delete {LAUNCHERS[version]}"]]
    words = {"v1": "MPIJob pi is suspended.", "v2beta1": "MPIJob suspended"}[version]
    assert stated(found) == {
        "Created": ("True", "MPIJobCreated", "MPIJob default/pi is created."),
        "Running": ("False", "MPIJobSuspended", "MPIJob default/pi is suspended."),
        "Suspended": ("True", "MPIJobSuspended", words),
    }
    assert "startTime" not in written(found)


@DIALECTS
def test_a_suspended_job_says_at_once_when_its_last_pod_has_ended(version: str) -> None:
    """Kueue waits for it."""
    suspended = [CREATED, condition("Running", "False", "MPIJobSuspended", "MPIJob default/pi is suspended.")]
    words = {"v1": "MPIJob pi is suspended.", "v2beta1": "MPIJob suspended"}[version]
    suspended.append(condition("Suspended", reason="MPIJobSuspended", message=words))
    changes = {"spec/runPolicy/suspend": True}
    body = resource(version, changes, *suspended, replicaStatuses=ALL_ACTIVE)
    del body["status"]["startTime"]
    going = workers(2, deleted="2023-11-14T22:13:50Z")
    assert told(planned(body, going[0], now=NOW - 99)) == []
    found = planned(body, now=NOW - 99)
    assert told(found) == [["write"]]
    assert written(found)["replicaStatuses"] == {"Launcher": {}, "Worker": {}}


@DIALECTS
def test_a_job_that_is_created_suspended_makes_nothing(version: str) -> None:
    found = planned(resource(version, {"spec/runPolicy/suspend": True}), **NOTHING)
    assert told(found) == [["write"], ["tell MPIJobCreated", "tell MPIJobSuspended"]]
    assert "startTime" not in written(found)


@DIALECTS
@pytest.mark.parametrize("waits", [True, False])
def test_a_resumed_job_starts_anew(version: str, waits: bool) -> None:
    suspended = [condition("Running", "False"), CREATED, condition("Suspended", reason="MPIJobSuspended")]
    changes = {"spec/launcherCreationPolicy": "WaitForWorkersReady"} if waits else {}
    body = resource(version, changes, *suspended)
    del body["status"]["startTime"]
    found = planned(body)
    launchers = [] if waits else [[f"create {LAUNCHERS[version]}"]]
    made = ["create Pod pi-worker-0", "create Pod pi-worker-1"]
    assert told(found) == [["write"], ["tell MPIJobResumed", *made], *launchers]
    words = {"v1": "MPIJob pi is resumed.", "v2beta1": "MPIJob resumed"}[version]
    assert events(found)[0] == ("Normal", "MPIJobResumed", words)
    assert stated(found)["Suspended"] == ("False", "MPIJobResumed", words)
    assert written(found)["conditions"][-1]["type"] == "Created"  # what `kubectl get` shows
    assert written(found)["startTime"] == "2023-11-14T22:15:00Z"


@DIALECTS
def test_a_resumed_launcher_waits_for_the_end_of_the_former_one(version: str) -> None:
    body = resource(version, None, CREATED, RUNNING)
    old = launcher(deleted="2023-11-14T22:15:20Z")
    assert not any("launcher" in one for step in told(planned(body, old, *workers())) for one in step)


@DIALECTS
def test_a_launcher_that_succeeded_while_it_was_suspended_has_succeeded(version: str) -> None:
    body = resource(version, {"spec/runPolicy/suspend": True}, CREATED, RUNNING)
    assert "Succeeded" in stated(planned(body, launcher("Succeeded", code=0), *workers(), **own(version)))


@DIALECTS
def test_a_launcher_that_a_suspension_stopped_has_not_succeeded_though_it_exits_with_0(version: str) -> None:
    stopped = launcher("Succeeded", code=0, deleted=START, created="2023-11-14T22:10:00Z")
    job = own(version)
    if version == "v2beta1":
        job["launcher_job"]["metadata"]["deletionTimestamp"] = START
    suspended = resource(version, {"spec/runPolicy/suspend": True}, CREATED, RUNNING)
    resumed = resource(version, None, CREATED)
    for body in (suspended, resumed):
        assert "Succeeded" not in stated(planned(body, stopped, *workers(), **job))


@DIALECTS
def test_the_launcher_is_made_when_all_workers_are_ready(version: str) -> None:
    body = resource(version, {"spec/launcherCreationPolicy": "WaitForWorkersReady"}, CREATED)
    assert not planned(body, workers()[0], pod("pi-worker-1", ready=False), now=NOW - 99).steps
    assert told(planned(body, *workers(), now=NOW - 99)) == [["write"], [f"create {LAUNCHERS[version]}"]]


@pytest.mark.parametrize(
    "resource_",
    [
        resource("v2beta1", {"spec/runPolicy/managedBy": "kueue.x-k8s.io/multikueue"}),
        resource("v1", {"metadata/deletionTimestamp": START}, CREATED),
    ],
)
def test_jobs_of_others_and_dying_ones_are_let_alone(resource_: dict[str, Any]) -> None:
    assert planned(resource_, *workers()) == Plan()
