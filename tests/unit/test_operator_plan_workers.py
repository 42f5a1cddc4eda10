"""Plan: which workers are made, replaced and deleted, and what is said of those that can't be."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import launcher, pod, resource, running, workers

from agents.job.model import Job
from agents.job.read import read
from agents.operator import objects
from agents.operator.actions import Create, Delete, Patch, Plan

CONTAINER = f"{plans.WORKER}/template/spec/containers/0"
POLICY = f"{plans.WORKER}/restartPolicy"


def acts(found: Plan) -> list[list[str]]:
    """All actions except the status and events."""
    steps = [[one for one in step if not one.startswith(("tell", "write"))] for step in plans.steps(found)]
    return [step for step in steps if step]


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
@pytest.mark.parametrize(
    ("more", "is_permanent"),
    [
        ({"code": 1}, True),
        ({"code": 127}, True),
        ({"code": 128}, False),
        ({"code": 137, "why": "OOMKilled"}, False),
        ({"code": 1, "reason": "Evicted"}, False),
        ({"reason": "NodeLost"}, False),
    ],
)
def test_a_worker_that_failed_is_replaced(policy: str, more: dict[str, Any], is_permanent: bool) -> None:
    body = running("v1", {POLICY: policy})
    failed = pod("pi-worker-1", "Failed", **more)
    found = plans.plan(body, launcher(), workers()[0], failed)
    if is_permanent and policy == "ExitCode":
        failure = f"pi-worker-1: container mpi exited with {more['code']}"
        words = f"MPIJob pi is failed because 1 Worker replica(s) failed: {failure}"
        status, reason, message = plans.conditions(found)["Failed"]
        assert (status, reason) == ("True", "MPIJobFailed")
        assert message.startswith(words)
        assert acts(found) == [["delete Pod pi-launcher"]]
    else:
        assert acts(found) == [["delete Pod pi-worker-1"], ["create Pod pi-worker-1"]]
        is_evicted = more.get("reason") == "Evicted"
        assert (("Warning", "MPIJobEvicted", "1/2 workers are evicted") in plans.events(found)) is is_evicted


def test_a_worker_that_ended_well_is_left_alone() -> None:
    assert not acts(plans.plan(running(), launcher(), workers()[0], pod("pi-worker-1", "Succeeded", code=0)))


@pytest.mark.parametrize(
    ("score", "lived", "delay_s"),
    [("", 1, 0), ("1", 1, 10), ("2", 1, 20), ("5", 1, 160), ("6", 1, 300), ("99", 1, 300), ("5", 600, 0), ("x", 1, 0)],
)
def test_a_worker_that_fails_again_and_again_is_replaced_ever_later(score: str, lived: int, delay_s: int) -> None:
    ended = plans.NOW
    annotations = {"mpi-agents/restarts": score} if score else {}
    created = {1: "2023-11-14T22:14:59Z", 600: "2023-11-14T22:05:00Z"}[lived]
    more = {"annotations": annotations, "created": created, "finished": "2023-11-14T22:15:00Z"}
    failed = pod("pi-worker-1", "Failed", code=1, **more)
    if delay_s:
        before = plans.plan(running(), launcher(), workers()[0], failed, now=ended + delay_s - 1)
        assert not acts(before)
        assert before.requeue_at == ended + delay_s
    found = plans.plan(running(), launcher(), workers()[0], failed, now=ended + delay_s)
    made = next(one for step in found.steps for one in step if isinstance(one, Create))
    number = int(score) if delay_s else 0
    assert made.body["metadata"]["annotations"]["mpi-agents/restarts"] == str(number + 1)


def test_a_worker_that_is_being_deleted_is_waited_for() -> None:
    going = pod("pi-worker-1", deleted="2023-11-14T22:15:20Z")
    found = plans.plan(running(), launcher(), workers()[0], going, now=plans.NOW - 98)
    assert found.steps == ()
    assert found.requeue_at == plans.NOW - 95  # to say so


@plans.DIALECTS
def test_a_worker_of_a_dead_node_is_named_with_what_to_do(version: str) -> None:
    stuck = pod("pi-worker-1", deleted="2023-11-14T22:14:00Z")  # a minute ago
    found = plans.plan(running(version), launcher(), workers()[0], stuck)
    status, reason, words = plans.conditions(found)["WorkersReady"]
    assert (status, reason) == ("False", "WorkerStuck")
    assert "pi-worker-1 can't be replaced" in words
    assert "its node node-7" in words
    assert "kubectl -n default delete pod pi-worker-1 --force" in words
    assert plans.events(found) == [("Warning", "WorkerStuck", words)]
    assert not acts(found)


@plans.DIALECTS
def test_more_replicas_are_in_the_hostfile_before_they_are_made_and_in_the_role_after(version: str) -> None:
    before = plans.observed(running(version))
    body = running(version, {f"{plans.WORKER}/replicas": 4})
    found = plans.plan(body, launcher(), *workers(), config_map=before.config_map, role=before.role)
    assert plans.steps(found) == [
        ["write"],
        ["patch ConfigMap pi-config"],
        ["create Pod pi-worker-2", "create Pod pi-worker-3"],
        ["patch Role pi-launcher"],
    ]
    role = next(one for step in found.steps for one in step if isinstance(one, Patch) and one.kind.name == "Role")
    assert role.body["metadata"] == {"uid": "uid-of-role", "resourceVersion": "8"}
    assert role.body["rules"][-1]["resourceNames"] == [f"pi-worker-{index}" for index in range(4)]


@plans.DIALECTS
def test_fewer_replicas_leave_hostfile_and_role_when_they_are_gone(version: str) -> None:
    before = plans.observed(running(version, {f"{plans.WORKER}/replicas": 4}))
    known: Any = {"config_map": before.config_map, "role": before.role}
    found = plans.plan(running(version), launcher(), *workers(4), **known)
    assert acts(found) == [["delete Pod pi-worker-3", "delete Pod pi-worker-2"]]
    assert all(one.uid for step in found.steps for one in step if isinstance(one, Delete))
    going = [pod(f"pi-worker-{index}", deleted="2023-11-14T22:15:20Z") for index in (2, 3)]
    assert not acts(plans.plan(running(version), launcher(), *workers(), *going, **known))
    gone = plans.plan(running(version), launcher(), *workers(), **known)
    assert acts(gone) == [["patch ConfigMap pi-config", "patch Role pi-launcher"]]


def of_template(body: dict[str, Any], count: int, **more: Any) -> list[dict[str, Any]]:
    job = read(body)
    assert isinstance(job, Job)
    return workers(count, annotations={"mpi-agents/template": objects.template_hash(job.worker)}, **more)


NEW = {f"{plans.WORKER}/template/spec/containers/0/image": "example/new", f"{plans.WORKER}/replicas": 3}
OLD = {f"{plans.WORKER}/replicas": 3}


@pytest.mark.parametrize(
    ("strategy", "launcher_runs", "is_rolled"),
    [("", False, True), ("", True, False), ("RollingUpdate", True, True), ("OnDelete", False, False)],
)
def test_a_changed_template_reaches_workers_by_the_strategy(
    strategy: str, launcher_runs: bool, is_rolled: bool
) -> None:
    present = of_template(resource("v1", OLD), 3)
    body = running("v1", {**NEW, "spec/workerUpdateStrategy": strategy} if strategy else NEW)
    found = plans.plan(body, launcher("Running" if launcher_runs else "Pending"), *present)
    assert acts(found) == ([["delete Pod pi-worker-2"]] if is_rolled else [])
    assert ("WorkersOutdated" in str(found.steps)) is not is_rolled
    if not is_rolled:
        words = plans.conditions(found)["WorkersOutdated"][2]
        assert words.startswith("pi-worker-0, pi-worker-1, pi-worker-2: ")
        assert [event[1] for event in plans.events(found)] == ["WorkersOutdated"]


def test_workers_are_rolled_one_at_a_time_when_all_are_ready() -> None:
    old = of_template(resource("v1", OLD), 3)
    body = running("v1", {**NEW, "spec/workerUpdateStrategy": "RollingUpdate"})
    new = of_template(body, 3)
    assert acts(plans.plan(body, launcher(), *old[:2], new[2])) == [["delete Pod pi-worker-1"]]
    starting = of_template(body, 3, phase="Pending")[2]
    assert not acts(plans.plan(body, launcher(), *old[:2], starting))
    going = of_template(body, 3, deleted="2023-11-14T22:15:20Z")[2]
    assert not acts(plans.plan(body, launcher(), *old[:2], going))
    assert not acts(plans.plan(body, launcher(), *new))


def test_workers_of_a_template_that_never_got_ready_are_replaced_at_once() -> None:
    old = of_template(resource("v1", OLD), 3, phase="Pending")
    found = plans.plan(running("v1", NEW), launcher("Pending"), *old)
    assert acts(found) == [["delete Pod pi-worker-2", "delete Pod pi-worker-1", "delete Pod pi-worker-0"]]


def test_another_operator_image_rolls_no_workers() -> None:
    body = running("v1", {"spec/workerUpdateStrategy": "RollingUpdate"})
    job = read(body)
    assert isinstance(job, Job)
    before = [objects.worker(job, index, plans.SETTINGS)["metadata"]["annotations"] for index in range(2)]
    present = [pod(f"pi-worker-{index}", annotations=each) for index, each in enumerate(before)]
    assert plans.plan(body, launcher(), *present) == Plan()


def test_the_launchers_template_is_the_present_one_only_for_the_next_launcher() -> None:
    changes = {"spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/image": "example/new"}
    assert plans.plan(running("v1", changes), launcher(), *workers()) == Plan()


@pytest.mark.parametrize(("entries", "made"), [(0, 400), (2000, 23), (20_000, 4)])
def test_one_plan_makes_no_more_pods_than_fit_into_the_memory(entries: int, made: int) -> None:
    variables = [{"name": f"V{number}", "value": "x"} for number in range(entries)]
    changes = {f"{plans.WORKER}/replicas": 400 if entries < 20_000 else 100, f"{CONTAINER}/env": variables}
    found = plans.plan(running("v1", changes), launcher())
    names = [one.body["metadata"]["name"] for step in found.steps for one in step if isinstance(one, Create)]
    assert [name for name in names if "-worker-" in name] == [f"pi-worker-{index}" for index in range(made)]


def test_those_that_are_refused_hold_up_no_others() -> None:
    variables = [{"name": f"V{number}", "value": "x"} for number in range(20_000)]
    body = running("v1", {f"{plans.WORKER}/replicas": 10, f"{CONTAINER}/env": variables})
    refused = {("Pod", f"pi-worker-{index}"): f"Pod {index} is invalid: x" for index in range(4)}
    found = plans.plan(body, launcher(), rejected=refused)
    names = [one.body["metadata"]["name"] for step in found.steps for one in step if isinstance(one, Create)]
    assert names == [f"pi-worker-{index}" for index in range(4, 8)]
