"""PodGroups, and the pods that belong to them."""

from __future__ import annotations

import pytest
from mpijobs import job
from pod_objects import CONTAINER, EXEC, LAUNCHER, WORKER, Object, launcher

from agents.operator import objects
from agents.operator.settings import PodSettings

VOLCANO = PodSettings(image="i", annotations={}, gang_scheduler="volcano")
T9K = PodSettings(image="i", annotations={}, gang_scheduler="t9k")
COSCHEDULING = PodSettings(image="i", annotations={}, gang_scheduler="scheduler-plugins-scheduler")
POLICY = "spec/runPolicy/schedulingPolicy"
ASKED = {
    f"{LAUNCHER}/{CONTAINER}/resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    f"{WORKER}/{CONTAINER}/resources": {"limits": {"cpu": 2, "nvidia.com/gpu": 8}},
    f"{WORKER}/replicas": 3,
}


def group(changes: Object, settings: PodSettings) -> Object:
    made = objects.pod_group(job("v2beta1", EXEC | changes), settings)
    assert made is not None
    return made


def test_volcanos() -> None:
    made = group(ASKED, VOLCANO)
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == (
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        "pi",
    )
    asked = {"cpu": "6500m", "memory": "1073741824", "nvidia.com/gpu": "24"}
    assert made["spec"] == {"minMember": 4, "minResources": asked}


def test_coschedulings() -> None:
    changes = {POLICY: {"minAvailable": 2, "scheduleTimeoutSeconds": 30, "queue": "q", "priorityClass": "high"}}
    made = group(ASKED | changes, COSCHEDULING)
    assert (made["apiVersion"], made["kind"]) == ("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    asked = {"cpu": "2500m", "memory": "1073741824", "nvidia.com/gpu": "8"}
    assert made["spec"] == {"minMember": 2, "minResources": asked, "scheduleTimeoutSeconds": 30}


@pytest.mark.parametrize(
    ("changes", "spec"),
    [
        ({}, {"minMember": 3, "scheduleTimeoutSeconds": 0}),
        ({"spec/launcherCreationPolicy": "WaitForWorkersReady"}, {"minMember": 2, "scheduleTimeoutSeconds": 0}),
        (
            {"spec/launcherCreationPolicy": "WaitForWorkersReady", **ASKED},
            {"minMember": 3, "minResources": {"cpu": "6", "nvidia.com/gpu": "24"}, "scheduleTimeoutSeconds": 0},
        ),
        ({POLICY: {"minAvailable": 0}, **ASKED}, {"minMember": 0, "scheduleTimeoutSeconds": 0}),
        (
            {POLICY: {"minResources": {"cpu": "9"}}, **ASKED},
            {"minMember": 4, "minResources": {"cpu": "9"}, "scheduleTimeoutSeconds": 0},
        ),
        (
            {
                POLICY: {"minAvailable": 9},
                f"{WORKER}/{CONTAINER}/resources": {"requests": {"cpu": "1", "memory": "1e999"}},
            },
            {"minMember": 9, "minResources": {"cpu": "2"}, "scheduleTimeoutSeconds": 0},
        ),
    ],
)
def test_how_much_must_find_a_place_at_once(changes: Object, spec: Object) -> None:
    assert group(changes, COSCHEDULING)["spec"] == spec


@pytest.mark.parametrize(
    ("policy", "of_launcher", "of_worker", "found"),
    [("a", "b", "c", "a"), (None, "b", "c", "b"), (None, None, "c", "c"), (None, None, None, None)],
)
def test_priority_is_the_policys_the_launchers_the_workers(
    policy: str | None, of_launcher: str | None, of_worker: str | None, found: str | None
) -> None:
    given = {
        f"{POLICY}/priorityClass": policy,
        f"{LAUNCHER}/template/spec/priorityClassName": of_launcher,
        f"{WORKER}/template/spec/priorityClassName": of_worker,
    }
    changes = {key: value for key, value in given.items() if value}
    assert group(changes, VOLCANO)["spec"].get("priorityClassName") == found


@pytest.mark.parametrize(("policy", "found"), [({}, "of-annotation"), ({"queue": "of-policy"}, "of-policy")])
def test_queue_is_the_policys_or_the_annotations(policy: Object, found: str) -> None:
    changes = {POLICY: policy, "metadata/annotations": {"scheduling.volcano.sh/queue-name": "of-annotation"}}
    assert group(changes, VOLCANO)["spec"]["queue"] == found


@pytest.mark.parametrize(
    ("settings", "scheduler", "part", "key"),
    [
        (VOLCANO, "volcano", "annotations", "scheduling.k8s.io/group-name"),
        (COSCHEDULING, "scheduler-plugins-scheduler", "labels", "scheduling.x-k8s.io/pod-group"),
    ],
)
def test_pods_are_of_the_group(settings: PodSettings, scheduler: str, part: str, key: str) -> None:
    changes = EXEC | {f"{WORKER}/template/spec/schedulerName": "mine"}
    for pod in (launcher("v2beta1", changes, settings), objects.worker(job("v2beta1", changes), 0, settings)):
        assert pod["spec"]["schedulerName"] == scheduler
        assert pod["metadata"][part][key] == "pi"


# T9k's jobs, and its scheduler.

SCHEDULED = {"spec/scheduler/t9kScheduler": {"queue": "default", "priority": 50}}


@pytest.mark.parametrize(
    ("settings", "spec"),
    [
        (T9K, {"minMember": 3, "queue": "default", "priority": 50}),
        (VOLCANO, {"minMember": 3, "queue": "default"}),
        (COSCHEDULING, {"minMember": 3, "scheduleTimeoutSeconds": 0}),
    ],
)
@pytest.mark.parametrize("version", ["t9k", "t9k-3"])
def test_t9ks_jobs_mean_the_same_to_any_scheduler(settings: PodSettings, spec: Object, version: str) -> None:
    made = objects.pod_group(job(version, SCHEDULED), settings)
    assert made is not None
    assert made["spec"] == spec
    assert made["metadata"]["ownerReferences"][0]["apiVersion"] == "batch.tensorstack.dev/v1beta1"


def test_t9ks_scheduler_takes_kubeflows_jobs_too() -> None:
    made = objects.pod_group(job("v1", {POLICY: {"queue": "q", "minAvailable": 2, "priorityClass": "high"}}), T9K)
    assert made is not None
    assert (made["apiVersion"], made["kind"]) == ("scheduler.tensorstack.dev/v1beta1", "PodGroup")
    assert made["spec"] == {"minMember": 2, "queue": "q"}
    assert objects.pod_group(job("v1"), T9K) is not None


@pytest.mark.parametrize("settings", [T9K, VOLCANO, COSCHEDULING])
def test_a_job_of_t9ks_that_names_no_scheduler_has_the_default_one(settings: PodSettings) -> None:
    made = job("t9k", {"spec/worker/template/spec/schedulerName": "mine"})
    assert objects.pod_group(made, settings) is None
    for pod in (objects.launcher(made, settings), objects.worker(made, 0, settings)):
        assert pod["spec"]["schedulerName"] == "mine"
        assert not [key for part in ("labels", "annotations") for key in pod["metadata"][part] if "schedul" in key]


@pytest.mark.parametrize(
    ("version", "changes", "queue"), [("t9k", SCHEDULED, "default"), ("v2beta1", {}, None), ("v2beta1", EXEC, None)]
)
def test_pods_are_of_t9ks_group(version: str, changes: Object, queue: str | None) -> None:
    made = objects.worker(job(version, changes), 0, T9K)
    assert made["spec"]["schedulerName"] == "t9k-scheduler"
    labels = made["metadata"]["labels"]
    found = {key.partition("/")[2]: text for key, text in labels.items() if key.startswith("scheduler.")}
    assert found == {"group-name": "pi", "role": "worker", **({"queue": queue} if queue else {})}
