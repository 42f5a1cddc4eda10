"""Plan: all of runPolicy, for both dialects."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, condition, launcher, pod, resource, running, workers

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
@plans.DIALECTS
def test_clean_pod_policy(version: str, policy: str, pods: list[str], removed: list[str]) -> None:
    """Behind the status that says how the job ended, and again by the next plan if a crash came between."""
    present = [pod(f"pi-worker-{index}", phase) for index, phase in enumerate(pods)]
    changes = {"spec/runPolicy/cleanPodPolicy": policy, f"{plans.WORKER}/replicas": len(pods)}
    removed = [one.replace("LAUNCHER", plans.LAUNCHERS[version]) for one in removed]
    found = plans.plan(resource(version, changes, CREATED), launcher("Succeeded", code=0), *present)
    assert plans.steps(found)[0] == ["write"]
    assert [one for one in plans.steps(found)[1] if not one.startswith("tell")] == removed
    ended = resource(version, changes, CREATED, condition("Succeeded"), completionTime=plans.START)
    again = plans.plan(ended, launcher("Succeeded", code=0), *present)
    assert plans.steps(again) == ([removed] if removed else [])


def test_running_gives_a_launcher_a_minute_to_end() -> None:
    body = resource(
        "v1", {"spec/runPolicy/cleanPodPolicy": "Running"}, CREATED, condition("Succeeded"), completionTime=plans.START
    )
    assert plans.plan(body, launcher(code=0), now=plans.NOW - 41) == Plan((), plans.NOW - 40)
    assert plans.steps(plans.plan(body, launcher(code=0), now=plans.NOW - 40)) == [["delete Pod pi-launcher"]]


@plans.DIALECTS
def test_the_pod_group_goes_with_the_pods(version: str) -> None:
    group = {"metadata": {"name": "pi", "uid": "uid-of-group", "resourceVersion": "3"}}
    settings = PodSettings(image="i", gang_scheduler="volcano")
    for policy, removed in (("None", []), ("Running", [["delete PodGroup pi"]])):
        body = resource(
            version, {"spec/runPolicy/cleanPodPolicy": policy}, CREATED, condition("Failed"), completionTime=plans.START
        )
        assert plans.steps(plans.plan(body, pod_group=group, settings=settings)) == removed


@plans.DIALECTS
def test_the_job_itself_goes_when_its_time_is_over(version: str) -> None:
    changes = {"spec/runPolicy/ttlSecondsAfterFinished": 200}
    body = resource(version, changes, CREATED, condition("Failed"), completionTime=plans.START)
    assert plans.plan(body) == Plan((), plans.NOW + 100)
    assert plans.steps(plans.plan(body, now=plans.NOW + 100)) == [["delete MPIJob pi"]]


@plans.DIALECTS
def test_the_deadline_counts_from_the_start(version: str) -> None:
    changes = {"spec/runPolicy/activeDeadlineSeconds": 150}
    body = running(version, changes)
    assert plans.plan(body, launcher(), *workers()) == Plan((), plans.NOW + 50)
    found = plans.plan(body, launcher(), *workers(), now=plans.NOW + 50)
    words = {
        "v1": "Job pi has failed because it was active longer than specified deadline",
        "v2beta1": "Job was active longer than specified deadline",
    }[version]
    assert plans.conditions(found)["Failed"] == ("True", "DeadlineExceeded", words)
    assert plans.status(found)["completionTime"] == "2023-11-14T22:15:50Z"
    # training-operator stops all that runs, whatever the policy; the workers of v2beta1 are the policy's
    gone = {"v1": ["delete all workers", "delete Pod pi-launcher"], "v2beta1": ["delete Job pi-launcher"]}[version]
    assert plans.steps(found) == [["write"], ["tell DeadlineExceeded", *gone]]


@plans.DIALECTS
def test_a_suspended_job_has_no_pods(version: str) -> None:
    body = resource(version, {"spec/runPolicy/suspend": True}, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher(), *workers())
    assert plans.steps(found) == [["write"], ["tell MPIJobSuspended", f"delete {plans.LAUNCHERS[version]}"]]
    words = {"v1": "MPIJob pi is suspended.", "v2beta1": "MPIJob suspended"}[version]
    assert plans.conditions(found) == {
        "Created": ("True", "MPIJobCreated", "MPIJob default/pi is created."),
        "Running": ("False", "MPIJobSuspended", "MPIJob default/pi is suspended."),
        "Suspended": ("True", "MPIJobSuspended", words),
    }
    assert "startTime" not in plans.status(found)


@plans.DIALECTS
def test_a_suspended_job_says_at_once_when_its_last_pod_has_ended(version: str) -> None:
    """Kueue waits for it."""
    suspended = [CREATED, condition("Running", "False", "MPIJobSuspended", "MPIJob default/pi is suspended.")]
    words = {"v1": "MPIJob pi is suspended.", "v2beta1": "MPIJob suspended"}[version]
    suspended.append(condition("Suspended", reason="MPIJobSuspended", message=words))
    changes = {"spec/runPolicy/suspend": True}
    body = resource(version, changes, *suspended, replicaStatuses=plans.ALL_ACTIVE)
    del body["status"]["startTime"]
    going = workers(2, deleted="2023-11-14T22:13:50Z")
    assert plans.steps(plans.plan(body, going[0], now=plans.NOW - 99)) == []
    found = plans.plan(body, now=plans.NOW - 99)
    assert plans.steps(found) == [["write"]]
    assert plans.status(found)["replicaStatuses"] == {"Launcher": {}, "Worker": {}}


@plans.DIALECTS
@pytest.mark.parametrize("waits", [True, False])
def test_a_resumed_job_starts_anew(version: str, waits: bool) -> None:
    suspended = [condition("Running", "False"), CREATED, condition("Suspended", reason="MPIJobSuspended")]
    changes = {"spec/launcherCreationPolicy": "WaitForWorkersReady"} if waits else {}
    body = resource(version, changes, *suspended)
    del body["status"]["startTime"]
    found = plans.plan(body)
    launchers = [] if waits else [[f"create {plans.LAUNCHERS[version]}"]]
    made = ["create Pod pi-worker-0", "create Pod pi-worker-1"]
    assert plans.steps(found) == [["write"], ["tell MPIJobResumed", *made], *launchers]
    words = {"v1": "MPIJob pi is resumed.", "v2beta1": "MPIJob resumed"}[version]
    assert plans.events(found)[0] == ("Normal", "MPIJobResumed", words)
    assert plans.conditions(found)["Suspended"] == ("False", "MPIJobResumed", words)
    assert plans.status(found)["conditions"][-1]["type"] == "Created"  # what `kubectl get` shows
    assert plans.status(found)["startTime"] == "2023-11-14T22:15:00Z"


@plans.DIALECTS
def test_a_launcher_that_succeeded_while_it_was_suspended_has_succeeded(version: str) -> None:
    body = resource(version, {"spec/runPolicy/suspend": True}, CREATED, RUNNING)
    assert "Succeeded" in plans.conditions(plans.plan(body, launcher("Succeeded", code=0), *workers()))


@plans.DIALECTS
def test_the_launcher_is_made_when_all_workers_are_ready(version: str) -> None:
    body = resource(version, {"spec/launcherCreationPolicy": "WaitForWorkersReady"}, CREATED)
    assert not plans.plan(body, workers()[0], pod("pi-worker-1", ready=False), now=plans.NOW - 99).steps
    assert plans.steps(plans.plan(body, *workers(), now=plans.NOW - 99)) == [
        ["write"],
        [f"create {plans.LAUNCHERS[version]}"],
    ]


@pytest.mark.parametrize(
    "resource_",
    [
        resource("v2beta1", {"spec/runPolicy/managedBy": "kueue.x-k8s.io/multikueue"}),
        resource("v1", {"metadata/deletionTimestamp": plans.START}, CREATED),
    ],
)
def test_jobs_of_others_and_dying_ones_are_let_alone(resource_: dict[str, Any]) -> None:
    assert plans.plan(resource_, *workers()) == Plan()
