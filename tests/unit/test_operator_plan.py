"""Plan: what is done about a job, matter by matter."""

from __future__ import annotations

import copy
from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, condition, launcher, pod, resource, running, workers

from agents.operator.actions import Create, Patch, Plan
from agents.operator.settings import PodSettings


@plans.DIALECTS
def test_a_new_job_is_said_to_be_created_before_anything_is_made(version: str) -> None:
    found = plans.plan(resource(version), **plans.NOTHING)
    assert [sorted(step) for step in plans.steps(found)] == [
        ["write"],
        [
            "create ConfigMap pi-config",
            "create Service pi",
            "create ServiceAccount pi-launcher",
            "tell MPIJobCreated",
        ],
        ["create Pod pi-worker-0", "create Pod pi-worker-1"],
        ["create Role pi-launcher"],
        ["create RoleBinding pi-launcher"],
        [f"create {plans.LAUNCHERS[version]}"],
    ]
    assert plans.status(found) == {
        "conditions": [
            {
                "type": "Created",
                "status": "True",
                "lastUpdateTime": "2023-11-14T22:15:00Z",
                "lastTransitionTime": "2023-11-14T22:15:00Z",
                "reason": "MPIJobCreated",
                "message": "MPIJob default/pi is created.",
            }
        ],
        "startTime": "2023-11-14T22:15:00Z",
        "lastReconcileTime": "2023-11-14T22:15:00Z",
        "replicaStatuses": {"Launcher": {}, "Worker": {}},
        "readyWorkers": "0/2",
    }


@plans.DIALECTS
def test_what_is_on_its_way_is_no_reason_to_write_before_20_s(version: str) -> None:
    body = resource(version, None, CREATED)
    pods = [launcher("Pending"), *workers(phase="Pending")]
    soon = plans.plan(body, *pods, now=plans.NOW - 81)  # 19 s after the last write
    assert soon == Plan((), plans.NOW - 80)
    later = plans.plan(body, *pods, now=plans.NOW - 80)
    assert plans.steps(later) == [["write"]]
    assert plans.conditions(later)["WorkersReady"][:2] == ("False", "WaitingForWorkers")
    assert plans.status(later)["conditions"][-1]["type"] == "Created"


@plans.DIALECTS
def test_trouble_is_told_after_5_s_and_once(version: str) -> None:
    body = resource(version, None, CREATED)
    waiting = {"name": "mpi", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    broken = pod("pi-worker-1", "Pending")
    broken["status"] |= {"containerStatuses": [waiting], "podIP": "10.0.0.1"}
    pods = [launcher("Pending"), workers()[0], broken]
    assert plans.plan(body, *pods, now=plans.NOW - 96) == Plan((), plans.NOW - 95)
    found = plans.plan(body, *pods, now=plans.NOW - 95)
    words = "1/2 ready · worker-1 container mpi can't get its image (ImagePullBackOff): no such image"
    assert plans.conditions(found)["WorkersReady"] == ("False", "WorkersInTrouble", words)
    assert plans.events(found) == [("Warning", "WorkersInTrouble", words)]
    assert plans.status(found)["readyWorkers"] == "1/2"
    again = {**body, "status": plans.status(found)}
    assert not plans.plan(again, *pods, now=plans.NOW + 60).steps


@plans.DIALECTS
def test_a_job_runs_when_launcher_and_all_workers_do(version: str) -> None:
    body = resource(version, None, CREATED)
    assert not plans.plan(body, launcher(), workers()[0], pod("pi-worker-1", "Pending"), now=plans.NOW - 99).steps
    found = plans.plan(body, launcher(), *workers(), now=plans.NOW - 99)
    assert plans.steps(found) == [["write"], ["tell MPIJobRunning"]]
    assert plans.events(found) == [("Normal", "MPIJobRunning", "MPIJob default/pi is running")]
    assert plans.conditions(found)["Running"] == ("True", "MPIJobRunning", "MPIJob default/pi is running.")
    assert plans.conditions(found)["WorkersReady"] == ("True", "WorkersReady", "2/2 ready")
    assert plans.status(found)["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}
    assert plans.status(found)["readyWorkers"] == "2/2"
    assert plans.plan({**body, "status": plans.status(found)}, launcher(), *workers()) == Plan()


@plans.DIALECTS
def test_readiness_that_comes_and_goes_is_written_once_in_a_while(version: str) -> None:
    body = running(version)
    pods = [launcher(), workers()[0], pod("pi-worker-1", ready=False)]
    assert plans.plan(body, *pods, now=plans.NOW - 99) == Plan((), plans.NOW - 80)


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_launcher_that_succeeded_decides_at_once(version: str, phase: str) -> None:
    """Even while another container keeps its pod Running, and before its batch Job reports it."""
    beside = [{"name": "istio-proxy", "ready": True, "state": {"running": {}}}]
    ended = launcher(phase, code=0, finished="2023-11-14T22:14:30Z", beside=beside)
    body = resource(version, None, READY, CREATED, RUNNING)
    found = plans.plan(body, ended, *workers())
    assert plans.steps(found) == [["write"], ["tell MPIJobSucceeded"]]
    assert plans.events(found) == [("Normal", "MPIJobSucceeded", "MPIJob default/pi successfully completed.")]
    assert list(plans.conditions(found).items()) == [
        ("Created", ("True", "MPIJobCreated", "MPIJob default/pi is created.")),
        ("Running", ("False", "MPIJobRunning", "MPIJob default/pi is running.")),
        ("Succeeded", ("True", "MPIJobSucceeded", "MPIJob default/pi successfully completed.")),
    ]
    assert plans.status(found)["completionTime"] == "2023-11-14T22:14:30Z"
    assert plans.status(found)["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": {}}
    assert "readyWorkers" not in plans.status(found)


def test_a_second_container_of_the_users_must_end_too() -> None:
    containers = [{"name": "mpi", "image": "a"}, {"name": "upload", "image": "b"}]
    body = resource(
        "v1", {"spec/mpiReplicaSpecs/Launcher/template/spec/containers": containers}, READY, CREATED, RUNNING
    )
    upload = {"name": "upload", "ready": True, "state": {"running": {}}}
    assert "Succeeded" not in str(plans.plan(body, launcher(code=0, beside=[upload]), *workers()))
    upload = {"name": "upload", "ready": False, "state": {"terminated": {"exitCode": 0}}}
    assert "Succeeded" in plans.conditions(plans.plan(body, launcher(code=0, beside=[upload]), *workers()))


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_job_whose_status_another_operator_wrote_is_let_alone(version: str) -> None:
    body = resource(
        version, {"spec/runPolicy/ttlSecondsAfterFinished": 0}, CREATED, condition("Failed"), completionTime=plans.START
    )
    assert plans.plan(body).steps
    body["metadata"]["managedFields"] = [{"manager": "mpi-operator", "subresource": "status"}]
    assert plans.plan(body) == Plan()
    body["metadata"]["managedFields"] += plans.OURS
    assert plans.plan(body).steps


def test_a_job_that_cant_be_read_is_told_so_once() -> None:
    body = resource("v1", {"spec/slotsPerWorker": -1})
    found = plans.plan(body)
    assert plans.steps(found) == [["write"], ["tell ValidationError"]]
    ((_, reason, words),) = plans.events(found)
    assert (reason, words[:26]) == ("ValidationError", "Found validation errors: [")
    assert "spec.slotsPerWorker" in words
    body["status"] = plans.status(found)
    body["metadata"]["managedFields"] = plans.OURS
    assert plans.plan(body) == Plan()
    body["spec"]["slotsPerWorker"] = 1
    healed = plans.plan(body)
    assert list(plans.conditions(healed)) == ["Created"]
    assert "MPIJobCreated" in [event[1] for event in plans.events(healed)]


@plans.DIALECTS
def test_of_thousands_of_faults_some_are_told(version: str) -> None:
    """All of them would be more bytes than the API server takes, and none would be reported."""
    body = resource(version)
    container = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["env"] = [{"nam": "X", "value": "1"}] * 20_000
    container["resources"] = {"limits": {"x" * 100_000: "much"}}
    (message,) = (message for *_, message in plans.conditions(plans.plan(body)).values())
    assert len(message) < 17_000
    assert "Launcher].template.spec.containers[0].env[0].name is required" in message.replace(":", "")
    assert message.endswith(" and 19985 more]")


@plans.DIALECTS
def test_objects_name_their_job_by_the_version_that_the_garbage_collector_watches(version: str) -> None:
    settings = PodSettings(image="mpi-agents:test", owner_version="kubeflow.org/v1")
    body = resource(version) | {"apiVersion": "kubeflow.org/v2beta1"}
    body["spec"]["dialect"] = version
    found = plans.plan(body, settings=settings, **plans.NOTHING)
    made = [one.body for step in found.steps for one in step if isinstance(one, Create)]
    owners = {(one["kind"], one["metadata"]["ownerReferences"][0]["apiVersion"]) for one in made}
    pods = {"Pod"} if version == "v1" else {"Pod", "Job"}
    others = {"ConfigMap", "Role", "RoleBinding", "Service", "ServiceAccount"}
    # Kueue takes a v2beta1 job's pods for the job's by this version.
    assert owners == {(kind, f"kubeflow.org/{version}") for kind in pods} | {
        (kind, "kubeflow.org/v1") for kind in others
    }


@plans.DIALECTS
def test_a_suspension_takes_the_pods_that_began_by_exec_whatever_the_job_says_now(version: str) -> None:
    """The status, which has no startTime then, is written before: the operator may have ended in between."""
    body = resource(version, {"spec/runPolicy/suspend": True}, condition("Suspended"), CREATED)
    del body["status"]["startTime"]
    body["metadata"]["annotations"] = {"mpi-agents/transport": "ssh"}
    for found, gone in (
        (plans.plan(body, *workers(1)), "delete Pod pi-worker-0"),
        (plans.plan(body, launcher()), f"delete {plans.LAUNCHERS[version]}"),
    ):
        assert gone in [words for step in plans.steps(found) for words in step]


@plans.DIALECTS
def test_a_taken_name_holds_back_the_pods(version: str) -> None:
    body = resource(version, None, CREATED)
    taken = frozenset({("ConfigMap", "pi-config")})
    found = plans.plan(body, config_map=None, role=None, name_conflicts=taken)
    words = 'Resource "pi-config" of Kind "ConfigMap" already exists and is not managed by MPIJob'
    assert plans.steps(found) == [["write"], ["tell ErrResourceExists"]]
    assert plans.events(found) == [("Warning", "ErrResourceExists", words)]
    body["status"] = plans.status(found)
    assert plans.plan(body, config_map=None, role=None, name_conflicts=taken, now=plans.NOW + 1).steps == ()
    # It is tried again, and until then nothing is removed or reported again.
    again = plans.plan(body, config_map=None, now=plans.NOW + 61)
    assert plans.steps(again)[1] == ["create ConfigMap pi-config"]
    assert "ErrResourceExists" in plans.conditions(again)
    assert plans.events(again) == []
    assert "ErrResourceExists" not in plans.conditions(plans.plan(body, now=plans.NOW + 61))


@plans.DIALECTS
def test_what_the_api_server_refuses_is_told_and_tried_again(version: str) -> None:
    body = resource(version, None, CREATED)
    quota = 'pods "pi-worker-1" is forbidden: exceeded quota: small'
    found = plans.plan(body, workers()[0], launcher("Pending"), rejected={("Pod", "pi-worker-1"): quota})
    assert plans.steps(found) == [
        ["write"],
        ["tell MPIJobFailed", "patch Role pi-launcher"],
        ["create Pod pi-worker-1"],
    ]
    assert plans.events(found) == [("Warning", "MPIJobFailed", f"worker pod created failed: {quota}")]
    assert plans.conditions(found)["CreationRefused"] == ("True", "MPIJobFailed", f"Pod pi-worker-1: {quota}")


@plans.DIALECTS
def test_a_faulty_template_waits_for_an_edit(version: str) -> None:
    body = resource(version, None, CREATED)
    kind, name = plans.LAUNCHERS[version].split()
    words = f'{kind} "{name}" is invalid: spec.containers[0].image: Required value'
    found = plans.plan(body, *workers(), rejected={(kind, name): words})
    assert plans.steps(found) == [["write"], ["tell ValidationError"]]
    assert plans.status(found)["conditions"][-1]["type"] == "ValidationError"
    assert not plans.plan({**body, "status": plans.status(found)}, *workers(), rejected={(kind, name): words}).steps


@pytest.mark.parametrize(
    ("version", "reason"), [("v1", "SettedPodTemplateRestartPolicy"), ("v2beta1", "SetPodTemplateRestartPolicy")]
)
def test_what_a_template_means_is_told_once(version: str, reason: str) -> None:
    changes = {
        "spec/mpiReplicaSpecs/Launcher/template/spec/automountServiceAccountToken": True,
        f"{plans.WORKER}/template/spec/restartPolicy": "Always",
    }
    found = [event[:2] for event in plans.events(plans.plan(resource(version, changes)))]
    assert found[1:] == [("Warning", reason), ("Warning", "ServiceAccountTokenMounted")]
    assert not plans.events(plans.plan(resource(version, changes, CREATED), *workers(1)))


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize(("field", "value", "warns"), [
    ("shareProcessNamespace", True, True), ("hostPID", True, True), ("shareProcessNamespace", False, False),
])  # fmt: skip
def test_a_launcher_whose_processes_can_be_seen_is_told_of_once(
    version: str,
    field: str,
    value: bool,
    warns: bool,
) -> None:
    changes = {f"spec/mpiReplicaSpecs/Launcher/template/spec/{field}": value}
    expected = [("Warning", "ProcessNamespaceShared")] if warns else []
    assert [event[:2] for event in plans.events(plans.plan(resource(version, changes)))][1:] == expected
    assert not plans.events(plans.plan(resource(version, changes, CREATED), *workers(1)))
    by_ssh = {**changes, "spec/transport": "ssh"}
    assert ("Warning", "ProcessNamespaceShared") not in [
        event[:2] for event in plans.events(plans.plan(resource(version, by_ssh)))
    ]


@pytest.mark.parametrize(
    ("changes", "has_volumes", "is_reported"),
    [({}, False, True), ({"spec/transport": "ssh"}, False, False), ({}, True, False)],
)
def test_why_programs_are_copied_is_reported_once(
    changes: dict[str, str], has_volumes: bool, is_reported: bool
) -> None:
    settings = PodSettings(
        "i", has_image_volumes=has_volumes, fallback="" if has_volumes else "node a has containerd 1.7"
    )
    message = "init containers copy our programs, as image volumes can't be used: node a has containerd 1.7"
    expected = [("Normal", "ProgramsCopied", message)] if is_reported else []
    changes = {"spec/transport": "exec"} | changes
    found = plans.events(plans.plan(resource("v2beta1", changes), settings=settings))
    assert [event for event in found if event[1] == "ProgramsCopied"] == expected
    assert not plans.events(plans.plan(resource("v2beta1", changes, CREATED), *workers(1), settings=settings))


@pytest.mark.parametrize("has_volumes", [True, False])
def test_pods_stay_when_the_delivery_of_programs_changes(has_volumes: bool) -> None:
    before, after = (PodSettings("i", has_image_volumes=one) for one in (has_volumes, not has_volumes))
    body = resource("v1", None, CREATED)
    made = plans.created(plans.plan(body, settings=before))
    there = [{**one, "status": {"phase": "Running"}} for name, one in made.items() if name.startswith("Pod ")]
    assert len(there) == 3
    assert not plans.actions(plans.plan(body, *there, settings=after), "create Pod", "delete")


CPU, MEMORY = {"minResources": {"cpu": "100k"}}, {"minResources": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("before", "after", "patched"),
    [
        ({}, {"minAvailable": 1}, {"minMember": 1}),
        (CPU, {}, {"minResources": None}),  # a merge patch keeps what it doesn't name
        (CPU, MEMORY, {"minResources": {"cpu": None, "memory": "1Gi"}}),
        (CPU, CPU, None),
    ],
    ids=["more", "less", "other", "the same"],
)
def test_a_changed_scheduling_policy_reaches_the_pod_group(
    before: dict[str, Any], after: dict[str, Any], patched: dict[str, Any] | None
) -> None:
    settings = PodSettings(image="i", gang_scheduler="volcano")
    earlier, body = (
        resource("v2beta1", {"spec/runPolicy/schedulingPolicy": policy}, CREATED) for policy in (before, after)
    )
    made = plans.created(plans.plan(earlier, settings=settings))["PodGroup pi"]
    group = {**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "4"}}
    found = plans.plan(body, settings=settings, pod_group=group)
    assert plans.actions(found, "create PodGroup", "patch PodGroup") == (["patch PodGroup pi"] if patched else [])
    if patched:
        change = next(one.body for one in found.steps[1] if isinstance(one, Patch))
        assert change["spec"] | patched == change["spec"]
        assert change["metadata"] | {"uid": "u", "resourceVersion": "4"} == change["metadata"]


@plans.DIALECTS
def test_the_same_facts_give_the_same_plan_and_are_not_changed(version: str) -> None:
    body = resource(version, None, CREATED)
    before = copy.deepcopy(plans.observed(body, *workers(1)))
    assert plans.plan(body, *workers(1)) == plans.plan(body, *workers(1))
    assert plans.observed(body, *workers(1)) == before
