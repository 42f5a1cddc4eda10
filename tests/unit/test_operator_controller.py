"""The loop around plan: its input, how its actions are carried out, and what happens after failures."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from looped_plan import KEY, Body, Loop, create, errors, job, made, steps

from agents.job.model import KeyType
from agents.job.status import Event
from agents.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    RejectedError,
    TooManyError,
    UnavailableError,
    from_status,
)
from agents.kube.kinds import BATCH_JOB, MPI_JOB_V2BETA1, POD, ROLE, SECRET
from agents.operator.actions import Create, Delete, DeleteWorkers, Patch, Plan, WriteStatus
from agents.operator.trim import Outline, trim

if TYPE_CHECKING:
    from agents.operator.planning.view import Observed


def test_each_action_is_the_request_that_it_stands_for() -> None:
    plan = steps(
        WriteStatus({"conditions": [{"type": "Created", "status": "True"}]}, "1", "new"),
        (create("pi-worker-0"), create("pi-worker-1"), create("pi-launcher"), Event("Normal", "MPIJobCreated", "m")),
        Patch(ROLE, "pi-launcher", {"rules": []}, "scaled"),
        Delete(POD, "pi-worker-1", "uid-1", "scaled"),
        Delete(BATCH_JOB, "pi-launcher", "uid-2", "retry"),
        DeleteWorkers("ended"),
        Delete(POD, "pi-worker-0", "uid-0", "ended", grace_s=2),
        DeleteWorkers("ended", grace_s=2),
        Delete(MPI_JOB_V2BETA1, "pi", "j", "ttl"),
    )
    loop = Loop(plan)
    loop.caches.store(POD).put(made("pi-worker-2", "2", version=3))
    loop.run()
    assert loop.api.asked[0] == ("update", "/apis/kubeflow.org/v1/namespaces/team/mpijobs/pi/status")
    assert sorted(loop.api.asked[1:4]) == [
        ("create", "pi-launcher"),
        ("create", "pi-worker-0"),
        ("create", "pi-worker-1"),
    ]
    assert loop.api.asked[4:] == [
        ("patch", "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles/pi-launcher"),
        ("delete", "/api/v1/namespaces/team/pods/pi-worker-1 uid-1"),
        ("delete", "/apis/batch/v1/namespaces/team/jobs/pi-launcher uid-2 foreground"),
        ("deletecollection", "/api/v1/namespaces/team/pods mpi-agents/job-uid=j,mpi-agents/role=worker 5"),
        ("delete", "/api/v1/namespaces/team/pods/pi-worker-0 uid-0 in 2 s"),
        ("deletecollection", "/api/v1/namespaces/team/pods mpi-agents/job-uid=j,mpi-agents/role=worker 5 in 2 s"),
        ("delete", "/apis/kubeflow.org/v1/namespaces/team/mpijobs/pi j"),
    ]
    assert loop.api.bodies == [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team", "uid": "j", "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Created", "status": "True"}]},
        }
    ]
    assert loop.recorder.events == ["MPIJobCreated"]
    assert loop.metrics.registry.get_sample_value("mpi_operator_jobs_created_total") == 1


def test_what_was_written_is_known_to_the_next_plan() -> None:
    loop = Loop(steps((create("pi-worker-0"), create("pi-worker-1"))), steps(DeleteWorkers("ended")))
    loop.run()
    assert loop.next_after() == 0
    loop.run()
    assert [each["metadata"]["name"] for each in loop.observed[1].pods] == ["pi-worker-0", "pi-worker-1"]
    loop.run()
    assert all(each["metadata"]["deletionTimestamp"] for each in loop.observed[2].pods)


def test_a_plan_with_nothing_to_do_comes_again_when_time_says_so() -> None:
    loop = Loop(Plan((), 1005.0))
    loop.queue.get(0)
    loop.queue.done(KEY)
    loop.run()
    assert loop.next_after() == pytest.approx(5, abs=0.1)


def test_a_plan_is_told_since_when_its_job_is_known() -> None:
    loop = Loop()
    for version, uid in enumerate("jjk", start=2):
        loop.caches.jobs().put(job(uid=uid, version=version))
        loop.run()
        loop.clock.now += 1
    assert [each.seen_at for each in loop.observed] == [1000.0, 1000.0, 1002.0]


@pytest.mark.parametrize(
    ("error", "again_s"),
    [
        (ConflictError("c", 409), 0.05),
        (UnavailableError("u", 500), 0.05),
        (RejectedError("r", 403), 0.05),
        (NotFoundError("n", 404), 0.05),
        (TooManyError("t", 429, "", 7.0), 7.0),
    ],
)
def test_a_failed_action_ends_the_plan_after_its_step(error: ApiError, again_s: float) -> None:
    loop = Loop(steps((create("a"), create("b"), create("c")), create("never")))
    loop.api.answers["create", "b"] = error
    loop.run()
    assert sorted(loop.api.asked) == [("create", "a"), ("create", "b"), ("create", "c")]
    assert errors(loop, type(error).__name__.removesuffix("Error")) == 1
    assert sorted(each["metadata"]["name"] for each in loop.caches.store(POD).all()) == ["a", "c"]
    assert loop.next_after() == pytest.approx(again_s, abs=0.06)


def test_what_is_refused_in_other_words_each_time_is_asked_for_less_and_less_however_quick_the_watch_is() -> None:
    words = iter(range(100))

    def plan(observed: Observed) -> Plan:
        status = {"conditions": [{"type": "CreationRefused", "message": f"used: {next(words)}"}]}
        return steps(WriteStatus(status, observed.resource["metadata"]["resourceVersion"], "told"), create("b"))

    loop = Loop(*[plan] * 6)
    loop.api.answers["create", "b"] = RejectedError("exceeded quota", 403)
    loop.api.on_update = lambda answer: loop.caches.jobs().event("MODIFIED", answer)
    loop.on_job = loop.queue.add
    waits = []
    for _ in range(6):
        loop.queue.get(0)
        loop.run()
        loop.queue.done(KEY)
        waits.append(loop.next_after())
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6], abs=0.06)


@pytest.mark.parametrize("said", ["0", "1"])
def test_a_server_that_goes_on_asking_for_a_pause_is_asked_less_and_less(said: str) -> None:
    loop = Loop(*[steps(create("b"))] * 12)
    loop.api.answers["create", "b"] = from_status(429, {}, said)
    waits = []
    for _ in range(12):
        loop.queue.get(0)
        loop.queue.done(KEY)
        loop.run()
        waits.append(loop.next_after() or 0.0)
    assert waits[0] == pytest.approx(max(float(said), 0.05), abs=0.06)
    assert waits[-1] == pytest.approx(60, abs=0.06)


EDITED = job(version=10)
EDITED["metadata"]["annotations"] = {"mpi-agents/ssh-port": "2200"}  # settings, by which the generation stays


@pytest.mark.parametrize("edited", [job(version=10, generation=2), EDITED], ids=["spec", "annotations"])
def test_refusals_are_told_to_plan_until_they_end_or_the_job_is_edited(edited: Body) -> None:
    again = steps(create("a"))
    loop = Loop(again, again, again, again, again)
    loop.api.answers["create", "a"] = RejectedError("exceeded quota", 403)
    loop.run()
    loop.run()
    assert loop.observed[1].rejected == {("Pod", "a"): "exceeded quota"}
    del loop.api.answers["create", "a"]
    loop.run()
    loop.run()
    assert loop.observed[3].rejected == {}
    loop.api.answers["create", "a"] = RejectedError("exceeded quota", 403)
    loop.run()
    loop.caches.jobs().put(edited)
    loop.run()
    assert loop.observed[5].rejected == {}


def test_what_was_refused_and_is_there_all_the_same_is_refused_no_more() -> None:
    """The answer to the try that succeeded was lost, or someone gave it the label again: no other try will tell."""
    loop = Loop(*[steps(create("pi-worker-0"))] * 2)
    for error in (RejectedError("exceeded quota", 403), UnavailableError("no answer")):
        loop.api.answers["create", "pi-worker-0"] = error
        loop.run()
    loop.caches.store(POD).event("ADDED", made("pi-worker-0"))
    loop.run()
    loop.caches.store(POD).event("DELETED", made("pi-worker-0", version=6))
    loop.run()
    assert [one.rejected for one in loop.observed[1:]] == [{("Pod", "pi-worker-0"): "exceeded quota"}, {}, {}]


def test_new_keys_are_in_one_request_and_kept_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Even where the API server's answer has them."""
    loop, sent = Loop(steps(Create(SECRET, {"metadata": {"name": "pi-ssh"}}, "wanted", KeyType.ED25519))), list[Body]()

    def answer(kind: Any, namespace: str, body: Body) -> Body:
        sent.append(body)
        return made("pi-ssh") | {"data": body["data"]}

    loop.api.create = answer  # type: ignore[method-assign]
    with caplog.at_level("DEBUG"):
        loop.run()
        loop.run()
    (body,) = sent
    assert body["data"].keys() == {"ssh-privatekey", "ssh-publickey"}
    secret = loop.observed[1].secret
    assert secret is not None
    assert secret.keys() == {"metadata"}
    assert "job team/pi: create Secret pi-ssh (wanted)" in caplog.messages
    assert body["data"]["ssh-privatekey"] not in caplog.text


def test_a_deletion_that_takes_its_time_is_known_and_one_that_is_over_as_well() -> None:
    loop = Loop(steps(Delete(POD, "a", "1", "x"), Delete(POD, "b", "2", "x"), Delete(POD, "c", "3", "x")))
    for name, uid in (("a", "1"), ("b", "2"), ("c", "3")):
        loop.caches.store(POD).put(made(name, uid))
    slow = made("a", "1", version=6)
    slow["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    loop.api.answers["delete", "/api/v1/namespaces/team/pods/a 1"] = slow | {"kind": "Pod"}
    loop.api.answers["delete", "/api/v1/namespaces/team/pods/c 3"] = NotFoundError("n", 404)
    loop.run()
    loop.run()
    assert loop.observed[1].pods == (trim(POD, slow),)


def test_a_standby_and_one_that_stops_do_nothing_more() -> None:
    loop = Loop(steps(create("a"), create("b")))
    may_act = [True, False]
    loop.may_act = lambda: may_act.pop(0)
    loop.run()
    assert loop.api.asked == [("create", "a")]
    loop.may_act = lambda: True
    assert loop.next_after() == pytest.approx(0.05, abs=0.06)  # it is not forgotten, if the lease is renewed after all


def test_a_large_step_ends_soon_where_the_lease_or_a_quota_does() -> None:
    many = steps(tuple(create(f"w-{number:03}") for number in range(100)))
    loop = Loop(many, many)
    may_act = [True, True, False]
    loop.may_act = lambda: may_act.pop(0)
    loop.run()
    assert len(loop.api.asked) == 32
    loop.may_act = lambda: True
    loop.api.asked.clear()
    loop.api.answers["create", "w-020"] = RejectedError("exceeded quota", 403)
    loop.run()
    assert len(loop.api.asked) == 32


def test_jobs_that_are_not_ours_are_not_planned() -> None:
    loop = Loop()
    loop.claims = lambda _resource: False
    loop.run()
    assert loop.observed == []
    assert loop.api.asked == []


def test_a_job_that_has_pods_of_ours_is_kept_when_another_operator_comes_before_its_first_status() -> None:
    loop = Loop(steps(create("pi-worker-0")))
    loop.run()
    loop.run()
    loop.claims = lambda _resource: False
    loop.run()
    assert [len(one.pods) for one in loop.observed] == [0, 1, 1]


def test_what_is_said_of_a_job_that_is_left_is_written_by_another_name() -> None:
    loop = Loop(steps(WriteStatus({"conditions": []}, "9", "ours")))
    left = [steps(WriteStatus({"conditions": []}, "1", "left", "mpi-agents-leaving")), Plan((), loop.clock.now + 5)]
    loop.claims = lambda _resource: len(left) == 0
    loop.plan_unclaimed = lambda _job, _resource, _now: left.pop(0)
    for _ in range(3):
        loop.run()
    assert loop.api.managers == ["mpi-agents-leaving", ""]
    assert len(loop.observed) == 1


def test_a_job_that_never_settles_is_slowed_down() -> None:
    loop = Loop(*[steps((Event("Normal", "Again", "m"),))] * 60)
    for _ in range(60):
        loop.run()
    assert errors(loop, "unsettled") == 10


def test_a_fault_in_one_job_s_plan_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def plan(observed: Observed) -> Plan:
        if observed.resource["metadata"]["name"] == "pi":
            raise KeyError("a fault")
        done.set()
        return Plan()

    loop = Loop(*[plan] * 4)
    loop.controller.start(1)
    loop.queue.add(KEY)
    loop.on_job = loop.queue.add
    loop.caches.jobs().put(job("other", "o", 2))
    assert done.wait(20)
    assert loop.controller.stop(20)
    assert errors(loop, "exception") >= 1
    record = next(each for each in caplog.records if each.levelname == "ERROR")
    assert record.getMessage() == "job team/pi can't be planned"
    assert record.exc_info


def test_a_job_that_is_gone_is_forgotten() -> None:
    loop = Loop()
    loop.run()
    loop.caches.jobs().event("DELETED", job(version=2))
    loop.run()
    loop.clock.now += 1
    loop.caches.jobs().event("ADDED", job(version=3))
    loop.run()
    assert [each.seen_at for each in loop.observed] == [1000.0, 1001.0], "as of one that was never seen"


JOBS = "/apis/kubeflow.org/v1/namespaces/team/mpijobs"
READ = ("list", f"{JOBS} metadata.name=pi")


def large(version: int = 1, **more: Any) -> Body:
    return job(version=version, spec={"env": ["x" * 10_000]}, **more)


def test_a_large_job_is_read_anew_and_its_status_comes_back_without_the_rest() -> None:
    plan = steps(WriteStatus({"conditions": []}, "2", "new"), (create("a"), create("b"), create("c")))
    loop = Loop(plan, Plan())
    loop.caches.jobs().event("MODIFIED", large(version=2))
    loop.api.answers[READ] = large(version=2)
    loop.api.answers["update", f"{JOBS}/pi/status"] = {
        "kind": "PartialObjectMetadata",
        "metadata": job(version=3)["metadata"],
    }
    loop.run()
    assert loop.api.asked == [
        READ,
        ("update", f"{JOBS}/pi/status"),
        *(("create", name) for name in "abc"),  # one by one
    ]
    assert loop.observed[0].resource["spec"] == large()["spec"]
    known = loop.caches.jobs().get("team", "pi")
    assert isinstance(known, Outline)
    assert (known["metadata"]["resourceVersion"], known["status"]) == ("3", {"conditions": []})


@pytest.mark.parametrize(
    ("answer", "comes_again"),
    [({}, False), (large(uid="other"), False), (large(version=3), True), (UnavailableError("no answer"), True)],
    ids=["gone", "another of its name", "newer than the caches", "no answer"],
)
def test_a_large_job_that_can_t_be_read_is_not_planned(answer: Body | ApiError, comes_again: bool) -> None:
    loop = Loop(steps(create("a")))
    loop.caches.jobs().event("MODIFIED", large(version=2))
    loop.api.answers[READ] = answer
    loop.run()
    assert loop.observed == []
    assert (loop.next_after(1.0) is not None) is comes_again


def test_a_job_whose_workers_are_made_by_many_plans_settles() -> None:
    loop = Loop(*[steps(create(f"pi-worker-{index}")) for index in range(60)])
    for _ in range(60):
        loop.queue.get(0)
        loop.run()
        loop.queue.done(KEY)
    assert errors(loop, "unsettled") == 0
