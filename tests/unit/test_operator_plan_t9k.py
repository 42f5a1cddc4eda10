"""T9k's jobs as their status tells of them: the examples of T9k's document, and what it has no example for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plans
import pytest
from job_states import pod
from mpijobs import mpijob

from agents.job.status import Event, conditions_of, seconds
from agents.operator.actions import Delete, Plan
from agents.operator.settings import PodSettings
from tests import yamls

Object = dict[str, Any]

STATUSES = Path(__file__).parent / "statuses"
BEGUN, ENDED = "2021-01-18T02:36:09Z", "2021-01-18T02:36:31Z"
NAME = {"metadata/name": "mpi-example"}
GENERATIONS = pytest.mark.parametrize("generation", ["t9k", "t9k-3"])


def example(name: str) -> Object:
    """What the document has."""
    found: Object = yamls.load((STATUSES / f"{name}.yaml").read_text())
    return found


def resource(generation: str = "t9k", changes: Object | None = None, *conditions: Object, **status: Any) -> Object:
    body = mpijob(generation, {**NAME, **(changes or {})})
    body["metadata"]["resourceVersion"] = "7"
    if conditions:
        body["metadata"]["managedFields"] = plans.OURS
        counts = {"Launcher": {"active": 1}, "Worker": {"active": 2}}
        before = {"startTime": BEGUN, "lastReconcileTime": BEGUN, "replicaStatuses": counts}
        body["status"] = {"conditions": list(conditions), **before, **status}
    return body


def one(role: str, phase: str = "Running", **more: Any) -> Object:
    more.setdefault("container", "mpi-worker")
    return pod(f"mpi-example-{role}", phase, **more)


def condition(kind: str, status: str = "True", message: str = "", reason: str = "-") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": BEGUN}


def of_type(status: Object) -> dict[str, Object]:
    return {entry["type"]: entry for entry in status["conditions"]}


def events(found: Plan) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for step in found.steps for each in step if isinstance(each, Event)]


INITIALIZED = condition("Initialized", message="The job has been initialized successfully.")
RUNNING = condition("Running", message="All pods are running normally.")
NORMAL = condition("ReplicaFailure", "False", "All pods are running normally.")


def test_the_documents_example_of_a_failed_job() -> None:
    """It calls Initialized Initializing there, though not in its text; why it failed stands behind its sentence."""
    body = resource("t9k", None, INITIALIZED, RUNNING, NORMAL)
    at = seconds(ENDED)
    assert at is not None
    failed = one("launcher", "Failed", code=1, finished=ENDED)
    status = plans.status(plans.plan(body, failed, one("worker-0"), one("worker-1"), now=at))
    wanted = example("failed")
    wanted["conditions"][0]["type"] = "Initialized"
    for entry, expected in zip(status["conditions"], wanted["conditions"], strict=True):
        said = entry.pop("message")
        assert said.startswith(expected.pop("message"))
        assert entry == expected
    assert status["phase"] == wanted["phase"]
    assert said == "The job exited with an error code. mpi-example-launcher: container mpi-worker exited with 1"


def test_the_documents_example_of_tasks() -> None:
    wanted = example("tasks")
    uids = {each["name"]: each["uid"] for task in wanted["tasks"] for each in task["status"]}
    body = resource("t9k", None, INITIALIZED)
    pods = [one(role, uid=uids[f"mpi-example-{role}"]) for role in ("launcher", "worker-0", "worker-1")]
    assert plans.status(plans.plan(body, *pods))["tasks"] == wanted["tasks"]


def test_the_documents_example_of_counters() -> None:
    body = resource("t9k", None, INITIALIZED)
    status = plans.status(plans.plan(body, one("launcher", "Pending"), one("worker-0"), one("worker-1")))
    assert status["aggregate"] == example("aggregate")["aggregate"]


@GENERATIONS
def test_replicas_are_listed_by_the_name_that_the_generation_has(generation: str) -> None:
    main = {"t9k": "mpi-worker", "t9k-3": "worker"}[generation]
    body = resource(generation, None, INITIALIZED)
    pods = [one(role, container=main) for role in ("launcher", "worker-0", "worker-1")]
    status = plans.status(plans.plan(body, *pods))
    key = {"t9k": "status", "t9k-3": "replicas"}[generation]
    assert [task.keys() for task in status["tasks"]] == [{"type", "restartCount", key}] * 2
    assert [len(task[key]) for task in status["tasks"]] == [1, 2]


@GENERATIONS
def test_a_new_job_is_pending_until_all_that_it_needs_is_there(generation: str) -> None:
    body = resource(generation)
    nothing: Any = dict.fromkeys(("config_map", "service", "secret"))
    first = plans.plan(body, **nothing)
    status = plans.status(first)
    assert status["conditions"] == [
        condition("Initialized", "False", "The job is being initialized.") | {"lastTransitionTime": at_now()}
    ]
    assert (status["phase"], status["aggregate"]["creating"]) == ("Pending", 3)
    assert events(first) == [("Created", "MPIJob default/mpi-example is created.")]
    assert status["launchCommand"] == "mpirun --hostfile /etc/mpi/hostfile /pi"
    body |= {"status": status, "metadata": {**body["metadata"], "managedFields": plans.OURS}}
    pending = [one(role, "Pending", node="") for role in ("launcher", "worker-0", "worker-1")]
    second = plans.plan(body, *pending, now=plans.NOW + 30)
    assert of_type(plans.status(second))["Initialized"]["status"] == "True"
    assert plans.status(second)["aggregate"]["creating"] == 3
    assert "Running" not in of_type(plans.status(second))


def test_a_job_whose_template_the_api_server_refuses_is_never_initialized() -> None:
    refused = {
        ("Pod", f"mpi-example-{role}"): 'Pod "x" is invalid: spec.y' for role in ("launcher", "worker-0", "worker-1")
    }
    body = resource("t9k", None, condition("Initialized", "False", "The job is being initialized."))
    status = plans.status(plans.plan(body, rejected=refused))
    assert of_type(status)["Initialized"]["status"] == "False"
    assert (status["phase"], of_type(status)["ValidationError"]["status"]) == ("Pending", "True")


def test_a_job_whose_pods_all_run_is_running() -> None:
    body = resource("t9k", None, INITIALIZED)
    found = plans.plan(body, one("launcher"), one("worker-0"), one("worker-1"))
    status = plans.status(found)
    assert [entry["type"] for entry in status["conditions"][:3]] == ["Initialized", "Running", "ReplicaFailure"]
    assert of_type(status)["Running"] == RUNNING | {"lastTransitionTime": at_now()}
    assert of_type(status)["ReplicaFailure"] == NORMAL | {"lastTransitionTime": at_now()}
    assert status["phase"] == "Running"
    assert events(found)[0] == ("Running", "All pods of MPIJob default/mpi-example are running.")


def test_a_job_that_ended_well_is_completed() -> None:
    body = resource("t9k", None, INITIALIZED, RUNNING, NORMAL)
    found = plans.plan(body, one("launcher", "Succeeded", code=0), one("worker-0"), one("worker-1"))
    status = plans.status(found)
    assert of_type(status)["Completed"]["status"] == "True"
    assert "Failed" not in of_type(status)
    assert of_type(status)["Running"] == RUNNING  # it has started
    assert status["phase"] == "Succeeded"
    launcher = status["tasks"][0]["status"][0]
    assert launcher["containers"] == [{"name": "mpi-worker", "containerPhase": "Terminated", "exitCode": 0}]
    assert {entry["type"]: entry["status"] for entry in conditions_of(body | {"status": status})} == {
        "Created": "True",
        "Running": "False",
        "Succeeded": "True",
    }


def test_a_launcher_has_ended_with_its_program_and_not_with_its_sidecars() -> None:
    body = resource("t9k", None, condition("Initialized", "False", "The job is being initialized."))
    status = plans.status(plans.plan(body, one("launcher", "Running", code=0), one("worker-0"), one("worker-1")))
    assert (status["phase"], of_type(status)["Initialized"]["status"]) == ("Succeeded", "True")
    assert status["tasks"][0]["status"][0]["phase"] == "Succeeded"
    assert (status["aggregate"]["succeeded"], status["aggregate"]["running"]) == (1, 2)


def test_a_job_that_runs_is_initialized_whatever_is_still_being_made() -> None:
    body = resource("t9k", None, condition("Initialized", "False", "The job is being initialized."))
    found = plans.plan(body, one("launcher"), one("worker-0"), one("worker-1"), config_map=None)
    assert of_type(plans.status(found))["Initialized"] == INITIALIZED | {"lastTransitionTime": at_now()}


def test_a_paused_job_goes_through_its_phases() -> None:
    body = resource("t9k", {"spec/runMode": {"pause": {"enabled": True}}}, INITIALIZED, RUNNING, NORMAL)
    pods = [one("launcher"), one("worker-0"), one("worker-1")]
    first = plans.plan(body, *pods)
    assert plans.steps(first) == [["write"], ["tell Paused", "delete Pod mpi-example-launcher"]]
    assert plans.status(first)["phase"] == "Paused"
    assert of_type(plans.status(first))["Running"]["status"] == "False"
    body["status"] = plans.status(first)
    second = plans.plan(body, pods[1], pods[2])
    assert plans.steps(second) == [["write"], ["delete all workers"]]
    body["status"] = plans.status(second)
    gone = plans.status(plans.plan(body, now=plans.NOW + 60))
    assert [each["phase"] for task in gone["tasks"] for each in task["status"]] == ["Deleted"] * 3
    assert gone["aggregate"]["deleted"] == 3
    body["status"], body["spec"]["runMode"]["pause"]["enabled"] = gone, False
    resumed = plans.plan(body, now=plans.NOW + 90)
    assert (plans.status(resumed)["phase"], events(resumed)[0][0]) == ("Resuming", "Resumed")
    assert of_type(plans.status(resumed))["Paused"]["status"] == "False"
    body["status"] = plans.status(resumed)
    new = [one(role, uid=f"new-{role}") for role in ("launcher", "worker-0", "worker-1")]
    running = plans.status(plans.plan(body, *new, now=plans.NOW + 99))
    assert (running["phase"], running["aggregate"]["deleted"]) == ("Running", 0)


def test_a_resumed_job_that_ends_before_all_its_pods_ran_is_not_called_paused() -> None:
    paused = condition("Running", "False", "The job is paused.", "Paused")
    body = resource("t9k", None, INITIALIZED, paused, condition("Paused", "False", "", "Resumed"))
    status = plans.status(plans.plan(body, one("launcher", "Succeeded", code=0), one("worker-0")))
    assert (
        of_type(status)["Running"]["message"] == "The job ended before all of its pods were running at the same time."
    )


def test_a_job_that_is_made_paused_has_no_pods() -> None:
    found = plans.plan(resource("t9k", {"spec/runMode": {"pause": {"enabled": True}}}))
    assert plans.steps(found) == [["write"], ["tell Created", "tell Paused"]]
    assert plans.status(found)["phase"] == "Paused"


@pytest.mark.parametrize("cleans", [True, False])
def test_workers_are_cleaned_up_and_the_launcher_stays_for_its_log(cleans: bool) -> None:
    body = resource("t9k", {"spec/runPolicy": {"cleanUpWorkers": cleans}}, INITIALIZED, RUNNING, NORMAL)
    ended = plans.plan(body, one("launcher", "Succeeded", code=0), one("worker-0"), one("worker-1"))
    assert plans.actions(ended, "delete") == (["delete all workers"] if cleans else [])
    body["status"] = plans.status(ended)
    left = [] if cleans else [one("worker-0"), one("worker-1")]
    later = plans.plan(body, one("launcher", "Succeeded", code=0), *left, now=plans.NOW + 3600)
    assert not [words for step in plans.steps(later) for words in step if words != "write"]


def test_what_is_deleted_after_the_end_is_told_once() -> None:
    body = resource("t9k", {"spec/runPolicy": {"cleanUpWorkers": True}}, INITIALIZED, RUNNING, NORMAL)
    launcher = one("launcher", "Succeeded", code=0)
    body["status"] = plans.status(plans.plan(body, launcher, one("worker-0"), one("worker-1")))
    soon = plans.plan(body, launcher, now=plans.NOW + 1)
    assert (soon.steps, soon.requeue_at) == ((), plans.NOW + 20)
    late = plans.plan(body, launcher, now=plans.NOW + 20)
    assert plans.status(late)["aggregate"] == dict.fromkeys(plans.status(late)["aggregate"], 0) | {
        "succeeded": 1,
        "deleted": 2,
    }
    assert plans.status(late)["phase"] == "Succeeded"
    body["status"] = plans.status(late)
    assert plans.plan(body, launcher, now=plans.NOW + 3600) == Plan()


def test_an_expired_job_is_deleted_as_what_it_is() -> None:
    ended = condition("Completed")
    body = resource("t9k", {"spec/runPolicy": {"ttlSecondsAfterFinished": 1}}, INITIALIZED, ended, completionTime=BEGUN)
    (step,) = plans.plan(body).steps
    assert [(each.kind.api_version, each.name) for each in step if isinstance(each, Delete)] == [
        ("batch.tensorstack.dev/v1beta1", "mpi-example")
    ]


def test_a_job_that_cannot_be_read_is_of_unknown_phase() -> None:
    found = plans.plan(resource("t9k", {"spec/worker/replicas": -1}))
    assert plans.status(found)["phase"] == "Unknown"
    assert of_type(plans.status(found))["ValidationError"]["status"] == "True"


def test_restarts_of_a_role_are_counted_together() -> None:
    body = resource("t9k", None, INITIALIZED)
    pods = [one("launcher", restarts=1), one("worker-0", restarts=2), one("worker-1", restarts=3)]
    assert [task["restartCount"] for task in plans.status(plans.plan(body, *pods))["tasks"]] == [1, 5]


def test_a_launcher_that_is_made_anew_is_counted_once() -> None:
    body = resource("t9k", None, INITIALIZED, RUNNING, NORMAL)
    evicted = one("launcher", "Failed", code=137, reason="Evicted")
    workers = [one("worker-0"), one("worker-1")]
    first = plans.plan(body, evicted, *workers)
    assert plans.status(first)["phase"] == "Pending"
    assert of_type(plans.status(first))["ReplicaFailure"]["status"] == "True"
    body["status"] = plans.status(first)
    again = plans.plan(body, evicted, *workers)  # it crashed between write and deletion
    assert "Restarting" in {entry["type"] for entry in conditions_of(body)}
    assert "delete Pod mpi-example-launcher" in [words for step in plans.steps(again) for words in step]
    assert body["status"]["tasks"][0]["restartCount"] == 1
    assert body["status"]["replicaStatuses"]["Launcher"]["failed"] == 1


def at_now() -> str:
    return "2023-11-14T22:15:00Z"


SCHEDULED = {"spec/scheduler": {"t9kScheduler": {"queue": "default", "priority": 50}}}
NO_GANG = "spec.scheduler.t9kScheduler has no effect: no gang scheduler is configured"


@pytest.mark.parametrize(
    ("scheduler", "asked", "words"),
    [
        ("", SCHEDULED, NO_GANG),
        ("", {"spec/scheduler": {"t9kScheduler": {"queue": "default"}}}, NO_GANG),
        ("", {}, ""),
        ("t9k", SCHEDULED, ""),
        ("volcano", SCHEDULED, "spec.scheduler.t9kScheduler.priority has no effect: the gang scheduler is volcano"),
        ("volcano", {"spec/scheduler": {"t9kScheduler": {"queue": "default"}}}, ""),
        ("mine", SCHEDULED, "t9kScheduler.queue and spec.scheduler.t9kScheduler.priority has no effect"),
    ],
)
@pytest.mark.parametrize("paused", [False, True])
@GENERATIONS
def test_a_scheduler_that_has_no_effect_is_told(
    generation: str, paused: bool, scheduler: str, asked: Object, words: str
) -> None:
    suspended = [condition("Suspended", message="x"), condition("Created")] if paused else []
    body = resource(generation, asked, *suspended)
    found = plans.plan(body, settings=PodSettings(image="i", gang_scheduler=scheduler))
    told = [message for reason, message in events(found) if reason == "SchedulerIgnored"]
    assert len(told) == (1 if words else 0)
    assert all(words in one and "jobs.gangScheduler" in one for one in told)
