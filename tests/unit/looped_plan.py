"""The loop around plan without its threads: plans that a test writes, and an API that answers by a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clocks import Clock

from agents.kube.errors import ApiError
from agents.kube.kinds import MPI_JOB_V1, POD
from agents.operator.actions import Create, Plan
from agents.operator.caches import Caches, Key
from agents.operator.controller import Controller, Scope
from agents.operator.executor import Executor
from agents.operator.metrics import Metrics
from agents.operator.queue import Queue
from agents.operator.settings import PodSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.job.status import Event
    from agents.operator.planning.view import Observed

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
        self.managers: list[str] = []
        self.answers: dict[tuple[str, str], Body | ApiError] = {}
        self.on_update: Callable[[Body], None] = lambda _answer: None  # before it is answered

    def _answer(self, verb: str, path: str, otherwise: Body) -> Body:
        self.asked.append((verb, path))
        answer = self.answers.get((verb, path), otherwise)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def get(self, path: str) -> Body:
        return self._answer("get", path, {})

    def list(self, path: str, *, keep: Callable[[Body], Body], fieldSelector: str) -> Body:  # noqa: N803
        found = self._answer("list", f"{path} {fieldSelector}", {})
        return {"items": [keep(found)] if found else []}

    def create(self, kind: Any, namespace: str, body: Body) -> Body:
        return self._answer("create", body["metadata"]["name"], made(body["metadata"]["name"]))

    def replace(self, path: str, body: Body, manager: str = "", *, partial: bool = False) -> Body:
        self.bodies.append(body)
        self.managers.append(manager)
        answer = self._answer("update", path, job(version=8 + len(self.bodies)) | {"status": body["status"]})
        self.on_update(answer)
        return answer

    def patch(self, path: str, body: Body) -> Body:
        return self._answer("patch", path, made(path.rpartition("/")[2], version=8))

    def delete(self, path: str, uid: str, *, waits: bool = False, grace_s: int | None = None) -> Body:
        how = f"{' foreground' if waits else ''}{'' if grace_s is None else f' in {grace_s} s'}"
        return self._answer("delete", f"{path} {uid}{how}", {"kind": "Status"})

    def delete_collection(self, path: str, selector: str, newest: int, grace_s: int | None = None) -> Body:
        how = "" if grace_s is None else f" in {grace_s} s"
        return self._answer("deletecollection", f"{path} {selector} {newest}{how}", {"kind": "PodList"})


class Recorder:
    def __init__(self) -> None:
        self.events: list[str] = []

    def emit(self, resource: Body, event: Event) -> None:
        self.events.append(event.reason)


class Loop:
    """All of it but the threads."""

    def __init__(self, *plans: Plan | Callable[[Observed], Plan]) -> None:
        self.plans, self.observed = list(plans), list[Any]()
        self.api, self.recorder, self.metrics, self.clock = Api(), Recorder(), Metrics(), Clock()
        self.on_job: Callable[[Key], None] = lambda _key: None
        self.claims: Callable[[Body], bool] = lambda _resource: True
        self.plan_unclaimed: Callable[[Any, Body, float], Plan] = lambda _job, _resource, _now: Plan()
        self.may_act: Callable[[], bool] = lambda: True
        self.caches = Caches([MPI_JOB_V1], on_job=lambda key: self.on_job(key))  # noqa: PLW0108 (bound later)
        self.queue = Queue[Key](self.clock, lambda: 1.0)
        scope = Scope(
            lambda resource: self.claims(resource),  # noqa: PLW0108 (bound later)
            lambda job, resource, now: self.plan_unclaimed(job, resource, now),  # noqa: PLW0108 (bound later)
            lambda: self.may_act(),  # noqa: PLW0108 (bound later)
        )
        executor = Executor(self.api, self.caches, self.recorder, self.metrics)  # type: ignore[arg-type]
        self.controller = Controller(
            self._plan, self.caches, self.queue, executor, PodSettings("i"), self.metrics, scope, self.clock
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


def errors(loop: Loop, why: str) -> float:
    """How many tries have failed for this reason."""
    return loop.metrics.registry.get_sample_value("mpi_operator_reconcile_errors_total", {"why": why}) or 0.0
