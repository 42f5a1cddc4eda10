"""The loop around plan: what it is given, what is done with what it asks for, and what becomes of failures."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from clocks import Clock

from agents.job.model import KeyType
from agents.operator.actions import Create, CreateKeys, Delete, DeleteWorkers, Emit, Patch, Plan, WriteStatus
from agents.operator.caches import Caches, Key
from agents.operator.controller import Controller
from agents.operator.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    RefusedError,
    TooManyError,
    UnavailableError,
)
from agents.operator.executor import Executor
from agents.operator.kinds import BATCH_JOB, CONFIG_MAP, MPI_JOB_V1, MPI_JOB_V2BETA1, POD, ROLE
from agents.operator.metrics import Metrics
from agents.operator.queue import Queue
from agents.operator.settings import PodSettings
from agents.operator.trim import trim

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.operator.observed import Observed

Body = dict[str, Any]
KEY = Key("team", "pi")


def job(name: str = "pi", uid: str = "j", version: int = 1, generation: int = 1, **more: Any) -> Body:
    metadata = {
        "namespace": "team",
        "name": name,
        "uid": uid,
        "resourceVersion": str(version),
        "generation": generation,
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": metadata, "spec": {}, **more}


def made(name: str, uid: str = "1", owner: Body | None = None, version: int = 5, role: str = "worker") -> Body:
    owner = owner or {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "pi", "uid": "j"}
    labels = {"mpi-agents/job-uid": owner["uid"], "mpi-agents/role": role}
    metadata = {"namespace": "team", "name": name, "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata | {"ownerReferences": [owner | {"controller": True}]}, "spec": {"containers": []}}


class Api:
    """Answers requests by a table, else as a server that has everything; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Body] = []
        self.answers: dict[tuple[str, str], Body | ApiError] = {}

    def _answer(self, verb: str, path: str, otherwise: Body) -> Body:
        self.asked.append((verb, path))
        answer = self.answers.get((verb, path), otherwise)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def get(self, path: str) -> Body:
        return self._answer("get", path, {})

    def create(self, kind: Any, namespace: str, body: Body) -> Body:
        return self._answer("create", body["metadata"]["name"], made(body["metadata"]["name"]))

    def replace(self, path: str, body: Body) -> Body:
        self.bodies.append(body)
        return self._answer("update", path, job(version=9) | {"status": body["status"]})

    def patch(self, path: str, body: Body) -> Body:
        return self._answer("patch", path, made(path.rpartition("/")[2], version=8))

    def delete(self, path: str, uid: str, *, waits: bool = False) -> Body:
        return self._answer("delete", f"{path} {uid}{' foreground' if waits else ''}", {"kind": "Status"})

    def delete_collection(self, path: str, selector: str, newest: int) -> Body:
        return self._answer("deletecollection", f"{path} {selector} {newest}", {"kind": "PodList"})


class Recorder:
    def __init__(self) -> None:
        self.events: list[str] = []

    def emit(self, resource: Body, event: Emit) -> None:
        self.events.append(event.reason)


class Loop:
    """All of it but the threads."""

    def __init__(self, *plans: Plan | Callable[[Observed], Plan]) -> None:
        self.plans, self.observed = list(plans), list[Any]()
        self.api, self.recorder, self.metrics, self.clock = Api(), Recorder(), Metrics(), Clock()
        self.caches, self.queue = Caches([MPI_JOB_V1]), Queue[Key](self.clock, lambda: 1.0)
        executor = Executor(self.api, self.caches, self.recorder, self.metrics)  # type: ignore[arg-type]
        self.controller = Controller(
            self._plan, self.caches, self.queue, executor, PodSettings("i"), self.metrics, self.clock
        )
        self.caches.jobs().put(job())

    def _plan(self, _job: Any, observed: Observed, _settings: PodSettings, now: float) -> Plan:
        assert now == self.clock.now
        self.observed.append(observed)
        planned = self.plans.pop(0) if self.plans else Plan()
        return planned if isinstance(planned, Plan) else planned(observed)

    def run(self) -> None:
        self.controller.reconcile(KEY)

    def next_after(self, limit_s: float = 200.0) -> float | None:
        """In how many seconds the job comes again, by steps of 50 ms."""
        for step in range(int(limit_s / 0.05)):
            if len(self.queue):
                return round(step * 0.05, 2)
            self.clock.now += 0.05
        return None


def create(name: str = "pi-worker-0", kind: Any = POD) -> Create:
    return Create(kind, {"metadata": {"name": name}}, "wanted")


def steps(*each: Any) -> Plan:
    return Plan(tuple(one if isinstance(one, tuple) else (one,) for one in each))


def test_each_action_is_the_request_that_it_stands_for() -> None:
    plan = steps(
        WriteStatus({"conditions": [{"type": "Created", "status": "True"}]}, "1", "new"),
        (create("pi-worker-0"), create("pi-worker-1"), create("pi-launcher"), Emit("Normal", "MPIJobCreated", "m")),
        Patch(ROLE, "pi-launcher", {"rules": []}, "scaled"),
        Delete(POD, "pi-worker-1", "uid-1", "scaled"),
        Delete(BATCH_JOB, "pi-launcher", "uid-2", "retry"),
        DeleteWorkers("ended"),
        Delete(MPI_JOB_V2BETA1, "pi", "j", "ttl"),
    )
    loop = Loop(plan)
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
    assert loop.metrics.jobs_created.value() == 1


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


@pytest.mark.parametrize(
    ("error", "again_s"),
    [
        (ConflictError("c", 409), 0.05),
        (UnavailableError("u", 500), 0.05),
        (RefusedError("r", 403), 0.05),
        (NotFoundError("n", 404), 0.05),
        (TooManyError("t", 429, "", 7.0), 7.0),
    ],
)
def test_a_failed_action_ends_the_plan_after_its_step(error: ApiError, again_s: float) -> None:
    loop = Loop(steps((create("a"), create("b"), create("c")), create("never")))
    loop.api.answers["create", "b"] = error
    loop.run()
    assert sorted(loop.api.asked) == [("create", "a"), ("create", "b"), ("create", "c")]
    assert loop.metrics.reconcile_errors.value(type(error).__name__.removesuffix("Error")) == 1
    assert sorted(each["metadata"]["name"] for each in loop.caches.store(POD).all()) == ["a", "c"]
    loop.queue = loop.controller._queue = Queue(loop.clock, lambda: 1.0)
    loop.plans = [steps(create("b"))]
    loop.run()
    assert loop.next_after() == pytest.approx(again_s, abs=0.06)


def test_refusals_are_told_to_plan_until_they_end_or_the_job_is_edited() -> None:
    again = steps(create("a"))
    loop = Loop(again, again, again, again, again)
    loop.api.answers["create", "a"] = RefusedError("exceeded quota", 403)
    loop.run()
    loop.run()
    assert loop.observed[1].refused == {("Pod", "a"): "exceeded quota"}
    del loop.api.answers["create", "a"]
    loop.run()
    loop.run()
    assert loop.observed[3].refused == {}
    loop.api.answers["create", "a"] = RefusedError("exceeded quota", 403)
    loop.run()
    loop.caches.jobs().put(job(version=10, generation=2))
    loop.run()
    assert loop.observed[5].refused == {}


def test_an_edit_of_annotations_alone_is_one_as_well() -> None:
    """They are settings, and the generation stays: what was refused for what is in it would never be tried again."""
    loop = Loop(steps(create("a")), Plan(), Plan())
    loop.api.answers["create", "a"] = RefusedError('Pod "a" is invalid: spec', 422)
    loop.run()
    loop.run()
    assert loop.observed[1].refused == {("Pod", "a"): 'Pod "a" is invalid: spec'}
    edited = job(version=10)
    edited["metadata"]["annotations"] = {"mpi-agents/ssh-port": "2200"}
    loop.caches.jobs().put(edited)
    loop.run()
    assert loop.observed[2].refused == {}


def test_a_name_that_another_has_is_told_to_plan_and_tried_again_in_a_minute() -> None:
    loop = Loop(steps(create("pi-config", CONFIG_MAP)))
    path = "/api/v1/namespaces/team/configmaps/pi-config"
    loop.api.answers["create", "pi-config"] = AlreadyExistsError("a", 409, "AlreadyExists")
    loop.api.answers["get", path] = made("pi-config", owner={"kind": "Deployment", "name": "pi", "uid": "x"})
    loop.run()
    assert loop.next_after() == pytest.approx(0.05, abs=0.06)
    loop.run()
    assert loop.observed[1].taken == {("ConfigMap", "pi-config")}
    assert loop.caches.store(CONFIG_MAP).all() == []
    while loop.queue.get(0):
        loop.queue.done(KEY)
    assert loop.next_after() == pytest.approx(60, abs=0.1)
    loop.run()
    assert loop.observed[2].taken == frozenset()


def test_what_we_made_and_did_not_know_of_is_taken_up() -> None:
    loop = Loop(steps(create("pi-worker-0")))
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    loop.api.answers["get", "/api/v1/namespaces/team/pods/pi-worker-0"] = made("pi-worker-0")
    loop.run()
    loop.run()
    assert [each["metadata"]["name"] for each in loop.observed[1].pods] == ["pi-worker-0"]
    assert loop.observed[1].taken == frozenset()


def test_what_lost_its_label_gets_it_again_or_plan_is_told_why_not() -> None:
    """The chart grants no patch of pods: without a word the job would wait for ever."""
    bare, again = made("pi-worker-0"), steps(create("pi-worker-0"))
    del bare["metadata"]["labels"]
    path = "/api/v1/namespaces/team/pods/pi-worker-0"
    loop = Loop(again, again, again)
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    loop.api.answers["get", path] = bare
    loop.api.answers["patch", path] = RefusedError("pods is forbidden", 403)
    loop.run()
    loop.run()
    assert loop.observed[1].refused == {
        ("Pod", "pi-worker-0"): "it is there without its label mpi-agents/job-uid=j, by which it is found: "
        "pods is forbidden"
    }
    del loop.api.answers["patch", path]
    loop.run()
    loop.run()
    assert [each["metadata"]["name"] for each in loop.observed[3].pods] == ["pi-worker-0"]
    assert loop.observed[3].refused == {}


def test_what_an_earlier_job_of_this_name_left_is_waited_for() -> None:
    loop = Loop(steps(create("pi-worker-0"), create("never")))
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    former = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "pi", "uid": "former"}
    loop.api.answers["get", "/api/v1/namespaces/team/pods/pi-worker-0"] = made("pi-worker-0", owner=former)
    loop.run()
    assert ("create", "never") not in loop.api.asked
    assert loop.metrics.reconcile_errors.value("Conflict") == 1
    loop.run()
    assert loop.observed[1].taken == frozenset()


def test_the_end_of_what_an_earlier_job_of_this_name_left_has_the_later_one_planned() -> None:
    """Its last pods may take their grace period, and retries are half a minute apart by then."""
    loop = Loop()
    loop.caches.on_job = loop.queue.add
    former = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "pi", "uid": "former"}
    left, ours = made("pi-worker-0", owner=former), made("pi-worker-1", uid="2")
    for one in (left, ours):
        loop.caches.store(POD).event("ADDED", one)
    while (key := loop.queue.get(0)) is not None:
        loop.queue.done(key)
    loop.caches.store(POD).event("DELETED", left)
    assert loop.queue.get(0) == KEY


def test_new_keys_are_in_one_request_and_kept_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Even where the API server's answer has them."""
    loop, sent = Loop(steps(CreateKeys({"metadata": {"name": "pi-ssh"}}, KeyType.ED25519, "wanted"))), list[Body]()

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


def test_what_another_kind_s_job_of_this_name_has_is_taken() -> None:
    loop = Loop(steps(create("pi-worker-0")))
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    other = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob", "name": "pi", "uid": "t"}
    loop.api.answers["get", "/api/v1/namespaces/team/pods/pi-worker-0"] = made("pi-worker-0", owner=other)
    loop.run()
    loop.run()
    assert loop.observed[1].taken == {("Pod", "pi-worker-0")}


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
    loop.controller.may_act = lambda: may_act.pop(0)
    loop.run()
    assert loop.api.asked == [("create", "a")]
    loop.controller.may_act = lambda: True
    assert loop.next_after() == pytest.approx(0.05, abs=0.06)  # it is not forgotten, if the lease is renewed after all


def test_a_large_step_ends_soon_where_the_lease_or_a_quota_does() -> None:
    many = steps(tuple(create(f"w-{number:03}") for number in range(100)))
    loop = Loop(many, many)
    may_act = [True, True, False]
    loop.controller.may_act = lambda: may_act.pop(0)
    loop.run()
    assert len(loop.api.asked) == 32
    loop.controller.may_act = lambda: True
    loop.api.asked.clear()
    loop.api.answers["create", "w-020"] = RefusedError("exceeded quota", 403)
    loop.run()
    assert len(loop.api.asked) == 32


def test_jobs_that_are_not_ours_are_not_planned() -> None:
    loop = Loop()
    loop.controller.takes = lambda _resource: False
    loop.run()
    assert loop.observed == []


def test_a_job_that_never_settles_is_slowed_down() -> None:
    loop = Loop(*[steps(Emit("Normal", "Again", "m"))] * 60)
    for _ in range(60):
        loop.run()
    assert loop.metrics.reconcile_errors.value("unsettled") == 10


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
    loop.caches.on_job = loop.queue.add
    loop.caches.jobs().put(job("other", "o", 2))
    assert done.wait(20)
    assert loop.controller.stop(20)
    assert loop.metrics.reconcile_errors.value("exception") >= 1
    record = next(each for each in caplog.records if each.levelname == "ERROR")
    assert record.getMessage() == "job team/pi can't be planned"
    assert record.exc_info


def test_a_job_that_is_gone_is_forgotten() -> None:
    loop = Loop(steps(create("a")))
    loop.run()
    loop.caches.jobs().remove("team", "pi", "j")
    loop.run()
    assert loop.controller._memories == {}
    assert len(loop.observed) == 1
