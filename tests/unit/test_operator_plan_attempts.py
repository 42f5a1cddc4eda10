"""Plan: failed attempts of a launcher, which the status lists with their last lines: their pods may be gone."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, batch_job, launcher, pod, resource, workers

Object = dict[str, Any]

AT, LATER = "2023-11-14T22:14:00Z", "2023-11-14T22:14:30Z"
ONCE = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": AT, "message": "no\nlicence"}}
LIMIT = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
WORDS = "pi-launcher: container mpi exited with 3: no | licence"
FIRST = {"pod": "pi-launcher", "endedAt": AT, "exitCode": 3, "message": WORDS}
RESTARTS = {"spec/mpiReplicaSpecs/Launcher/restartPolicy": "OnFailure"}
TWO_CONTAINERS = {"spec/mpiReplicaSpecs/Launcher/template/spec/containers": [{"name": "mpi"}, {"name": "log"}]}


def attempts(found: Any) -> Any:
    return plans.status(found).get("failedAttempts")


def body_of(version: str, **status: Any) -> Object:
    return resource(version, RESTARTS, READY, CREATED, RUNNING, **status)


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_one_that_was_started_again_in_place_is_listed(version: str) -> None:
    again = launcher(last=ONCE, ready=False, restarts=1)
    assert attempts(plans.plan(body_of(version), again, *workers())) == [FIRST]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_each_start_in_place_is_written_before_the_next_one_replaces_it(version: str) -> None:
    """The kubelet remembers one, and starts it again at once the first time. The status was written just now."""
    now = {"lastReconcileTime": "2023-11-14T22:14:59Z"}
    first = launcher(code=3, finished=AT, said="no\nlicence", ready=False)
    found = plans.plan(body_of(version, **now), first, *workers())
    assert attempts(found) == [FIRST]
    assert plans.events(found) == [
        ("Warning", "LauncherInTrouble", "pi-launcher container mpi exited with 3: no | licence")
    ]
    body = body_of(version, **now, failedAttempts=[FIRST])
    second = launcher(last={"terminated": {**ONCE["terminated"], "finishedAt": LATER}}, restarts=2)
    assert attempts(plans.plan(body, second, *workers())) == [FIRST, {**FIRST, "endedAt": LATER}]


def test_past_its_limit_it_says_how_the_last_one_failed() -> None:
    body = resource("v1", {**RESTARTS, "spec/runPolicy/backoffLimit": 1}, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher(last=ONCE, restarts=1), *workers())
    assert plans.conditions(found)["Failed"][2].endswith(f"has reached the specified backoff limit: {WORDS}")


def test_each_pod_of_a_job_is_listed_and_told() -> None:
    failed = pod("pi-launcher-a", "Failed", code=3, finished=AT, said="no\nlicence")
    oom = pod("pi-launcher-b", "Failed", code=137, finished=LATER, why="OOMKilled", created=AT)
    found = plans.plan(body_of("v2beta1"), failed, oom, *workers(), launcher_job=batch_job(failed=2))
    words = [one["message"] for one in attempts(found)]
    assert words[0] == "pi-launcher-a: container mpi exited with 3: no | licence"
    assert words[1] == "pi-launcher-b: container mpi exited with 137 (OOMKilled)"
    assert ("Warning", "LauncherFailed", f"{words[1]}; its Job tries again") in plans.events(found)


def test_a_pod_of_two_containers_that_failed_is_one_attempt() -> None:
    log = {"name": "log", "state": {"terminated": {"exitCode": 9, "finishedAt": LATER}}}
    failed = launcher("Failed", code=3, finished=AT, beside=[log])
    body = resource("v1", {**RESTARTS, **TWO_CONTAINERS}, READY, CREATED, RUNNING)
    assert [one["exitCode"] for one in attempts(plans.plan(body, failed, *workers()))] == [3]


def test_nor_is_it_two_if_the_other_container_has_ended_later() -> None:
    body = resource("v1", TWO_CONTAINERS, READY, CREATED, RUNNING)
    logs = {"name": "log", "state": {"running": {}}}
    first = plans.plan(body, launcher(code=3, finished=AT, beside=[logs]), *workers())
    assert attempts(first) is None
    log = {"name": "log", "state": {"terminated": {"exitCode": 0, "finishedAt": LATER}}}
    last = plans.plan(body, launcher("Failed", code=3, finished=AT, beside=[log]), *workers())
    assert [(one["exitCode"], one["endedAt"]) for one in attempts(last)] == [(3, LATER)]


def test_one_that_the_kubelet_ended_has_no_exit_code() -> None:
    evicted = launcher("Failed", reason="Evicted", message="low on memory", created=AT)
    found = plans.plan(body_of("v1"), evicted, *workers())
    words = "pi-launcher failed (Evicted): low on memory"
    assert attempts(found) == [{"pod": "pi-launcher", "endedAt": AT, "message": words}]


def test_earlier_ones_stay_and_the_oldest_make_room() -> None:
    known = [{"pod": f"pi-launcher-{number}", "endedAt": AT, "message": "x"} for number in range(9)]
    oom = pod("pi-launcher-z", "Failed", code=137, finished=LATER)
    found = plans.plan(body_of("v2beta1", failedAttempts=known), oom, *workers(), launcher_job=batch_job(failed=10))
    assert [one["pod"][-1] for one in attempts(found)] == list("2345678z")


def test_of_more_than_are_listed_the_same_ones_stay() -> None:
    """Nodes' clocks differ: pods of one Job may have ended in the same second."""
    pods = [pod(f"pi-launcher-{number}", "Failed", code=3, finished=AT) for number in range(9)]
    more: Object = {"launcher_job": batch_job(failed=9)}
    body = body_of("v2beta1")
    body["status"] = plans.status(plans.plan(body, *pods, *workers(), **more))
    assert len(body["status"]["failedAttempts"]) == 8
    assert plans.plan(body, *pods, *workers(), **more).steps == ()


def test_none_is_listed_twice() -> None:
    before = plans.plan(body_of("v1"), launcher(last=ONCE, ready=False, restarts=1), *workers())
    body = {**body_of("v1"), "status": plans.status(before)}
    assert plans.plan(body, launcher(last=ONCE, ready=False, restarts=1), *workers()).steps == ()
    ended = launcher("Failed", code=3, finished=LATER, last=ONCE)
    assert [one["endedAt"] for one in attempts(plans.plan(body, ended, *workers()))] == [AT, LATER]


def test_a_status_that_lost_them_is_not_written_again_for_them() -> None:
    """A CRD that doesn't know the field drops it."""
    before = plans.status(plans.plan(body_of("v1"), launcher(last=ONCE, ready=False, restarts=1), *workers()))
    del before["failedAttempts"]
    body = {**body_of("v1"), "status": before}
    assert plans.plan(body, launcher(last=ONCE, ready=False, restarts=1), *workers()).steps == ()


@pytest.mark.parametrize(("created", "words"), [(AT, f"too often: {WORDS}"), (LATER, "too often")])
def test_a_jobs_end_has_the_evidence_although_its_pod_is_gone(created: str, words: str) -> None:
    job = batch_job(LIMIT, failed=1)
    job["metadata"]["creationTimestamp"] = created  # an attempt of an earlier Job says nothing of this one
    found = plans.plan(body_of("v2beta1", failedAttempts=[FIRST]), *workers(), launcher_job=job)
    assert plans.conditions(found)["Failed"][2] == words
    assert plans.events(found)[0][2] == words
    assert attempts(found) == [FIRST]


JUST_NOW = {**LIMIT, "lastTransitionTime": "2023-11-14T22:14:59Z"}
GONE = launcher(last=ONCE, ready=False, restarts=1, deleted=LATER)
ENDED = launcher("Failed", code=3, finished=AT, said="no\nlicence")
EARLIER = pod("pi-launcher-a", "Failed", code=9, finished=AT)
FAILED = f"too often: {WORDS}"


@pytest.mark.parametrize(
    ("condition", "pods", "more", "words"),
    [
        (LIMIT, [], {}, "too often"),
        (JUST_NOW, [], {}, ""),
        (JUST_NOW, [], {"gone_launcher": GONE}, FAILED),
        (JUST_NOW, [launcher()], {}, ""),
        (JUST_NOW, [launcher()], {"now": plans.NOW + 1.9}, ""),
        (JUST_NOW, [launcher()], {"now": plans.NOW + 2}, "too often"),
        (JUST_NOW, [launcher()], {"now": plans.NOW - 5}, "too often"),  # a clock that is far off
        (JUST_NOW, [launcher(last=ONCE, ready=False, restarts=1)], {}, FAILED),
        (JUST_NOW, [GONE], {}, FAILED),
        (JUST_NOW, [ENDED], {}, FAILED),
        (JUST_NOW, [EARLIER, launcher(created=LATER)], {}, ""),
        (JUST_NOW, [EARLIER, launcher(created=LATER)], {"gone_launcher": GONE}, ""),
    ],
)
def test_a_failed_job_waits_for_the_end_of_its_pod_to_be_heard_of(
    condition: Object, pods: list[Object], more: Object, words: str
) -> None:
    """Jobs and pods have separate watches."""
    found = plans.plan(body_of("v2beta1"), *workers(), *pods, launcher_job=batch_job(condition, failed=1), **more)
    if words:
        assert plans.conditions(found)["Failed"][2] == words
    else:
        assert found.requeue_at == plans.NOW + 2
        assert all("Failed" not in str(step) for step in plans.steps(found))


@pytest.mark.parametrize("state", ["running", "waiting"])
def test_a_job_that_will_fail_has_failed_when_its_pod_goes(state: str) -> None:
    """As it says until Kubernetes 1.31; its container may have been started again, or be held back."""
    will_fail = batch_job({**JUST_NOW, "type": "FailureTarget"}, failed=1)
    more: Object
    for more, is_failed in (({}, False), ({"deleted": LATER}, True)):
        again = launcher(last=ONCE, ready=False, restarts=1, **more)
        again["status"]["containerStatuses"][0]["state"] = {state: {}}
        found = plans.conditions(plans.plan(body_of("v2beta1"), again, *workers(), launcher_job=will_fail))
        assert ("Failed" in found) is is_failed
    assert found["Failed"][2] == FAILED


@pytest.mark.parametrize(("restarts", "codes"), [({"last": ONCE, "restarts": 1}, [3]), ({}, [143])])
def test_a_start_in_place_that_its_job_cut_short_is_no_attempt(restarts: Object, codes: list[int]) -> None:
    """At its limit a Job deletes the pod, which the kubelet may have started again. A drained one has not restarted."""
    cut = launcher("Failed", code=143, finished=LATER, deleted=LATER, **restarts)
    found = plans.plan(body_of("v2beta1"), cut, *workers(), launcher_job=batch_job(LIMIT, failed=1))
    assert [one["exitCode"] for one in attempts(found)] == codes


def test_the_container_that_failed_first_is_the_evidence() -> None:
    ended = {"exitCode": 9, "reason": "Error", "startedAt": AT, "finishedAt": AT, "message": "the cause"}
    beside = {"name": "log", "restartCount": 0, "ready": False, "state": {"terminated": ended}}
    body = resource("v1", TWO_CONTAINERS, READY, CREATED, RUNNING)
    found = plans.plan(body, launcher("Failed", code=1, finished=LATER, beside=[beside]), *workers())
    assert plans.conditions(found)["Failed"][2].endswith("container log exited with 9: the cause")


FOREIGN = [
    None,
    {"pod": 1, "endedAt": "now"},
    {"pod": "x", "endedAt": "9999-12-31T23:59:59-12:00", "message": "in the year 10000"},
    {"endedAt": AT, "exitCode": "x", "message": "\x1b[2J" + "y" * 5000},
]


@pytest.mark.parametrize("listed", [7, FOREIGN])
def test_what_somebody_else_wrote_there_harms_nothing(listed: Any) -> None:
    found = plans.plan(body_of("v1", failedAttempts=listed), launcher("Failed", code=3, finished=LATER), *workers())
    *others, ours = attempts(found)
    assert ours["message"] == "pi-launcher: container mpi exited with 3"
    assert [(one["pod"], list(one), len(one["message"]), one["message"].isprintable()) for one in others] == (
        [("None", ["pod", "endedAt", "message"], 768, True)] if listed is FOREIGN else []
    )


def test_a_launchers_and_a_workers_last_lines_fit_into_one_condition() -> None:
    said = "a line of its output\n" * 200
    body = resource("v1", None, READY, CREATED, RUNNING)
    worker = workers(1, "Failed", code=1, said=f"{said}the worker's end")
    found = plans.plan(body, launcher("Failed", code=1, said=f"{said}the launcher's end"), *worker)
    message = plans.conditions(found)["Failed"][2]
    assert "the launcher's end; of its workers" in message
    assert message.endswith("the worker's end")
