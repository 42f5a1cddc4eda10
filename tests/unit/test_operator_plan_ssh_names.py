"""Jobs of kubeflow's and of T9k's kind that have one name: their objects would have the same, and only one has them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mpijobs import mpijob
from settled_job import true_of
from simulated_api import SimulatedApi
from simulated_cluster import Cluster, controller
from simulated_job import is_t9k

from agents.operator.caches import Caches, Key, group_of
from agents.operator.controller import Controller
from agents.operator.executor import Executor
from agents.operator.kinds import (
    BATCH_JOB,
    CONFIG_MAP,
    MPI_JOB_T9K,
    MPI_JOB_V2BETA1,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from agents.operator.metrics import Metrics
from agents.operator.plan import plan
from agents.operator.queue import Queue
from agents.operator.settings import PodSettings

if TYPE_CHECKING:
    from agents.operator.actions import Emit

Body = dict[str, Any]

MADE = {one.plural: one for one in (POD, BATCH_JOB, CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)}
T9KS = "mpijobs of T9k's"
OBJECTS = (("configmaps", "pi-config"), ("secrets", "pi-ssh"), ("services", "pi"), ("pods", "pi-worker-0"))


class TwoKinds(SimulatedApi):
    """An API server that has MPIJobs of both groups; it may be asked by several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()

    def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        with self._lock:
            return super().create(kind, namespace, body)

    def list(self, path: str, *, partial: bool, **query: str) -> Body:
        """Give the metadata of a Secret by its name."""
        found = self.find(path.rpartition("/")[2], query["fieldSelector"].removeprefix("metadata.name="))
        return {"items": [] if found is None else [{"metadata": found["metadata"]}]}

    def _at(self, path: str) -> Body:
        if f"/{MPI_JOB_T9K.api_version}/" in path:
            return self.objects[T9KS, path.rpartition("/")[2]]
        return super()._at(path)


class Operator:
    """The whole loop but its threads and its watches."""

    def __init__(self, api: TwoKinds) -> None:
        self.api = api
        self.events: list[str] = []
        self._caches = Caches([MPI_JOB_V2BETA1, MPI_JOB_T9K])
        self._queue = Queue[Key](lambda: api.now, lambda: 1.0)
        self._caches.on_job = self._queue.add
        executor = Executor(api, self._caches, self, Metrics())  # type: ignore[arg-type]
        settings = PodSettings(image="mpi-agents:test")
        self._controller = Controller(
            plan, self._caches, self._queue, executor, settings, Metrics(), clock=lambda: api.now
        )
        self._seen = 0

    def emit(self, resource: Body, event: Emit) -> None:
        self.events.append(f"{'T9k' if is_t9k(resource) else 'kubeflow'}: {event.reason}")

    def work(self, for_s: float) -> None:
        """Do what is due, and what becomes due meanwhile."""
        end = self.api.now + for_s
        while self.api.now < end:
            self._deliver()
            key = self._queue.get(0.0)
            if key is None:
                self.api.now += 1
                continue
            self._controller.reconcile(key)
            self._queue.done(key)

    def _deliver(self) -> None:
        news, self._seen = self.api.log[self._seen :], len(self.api.log)
        for seen in news:
            body = seen.body
            store = (
                self._caches.jobs(group_of(body)) if body["kind"] == "MPIJob" else self._caches.store(MADE[seen.kind])
            )
            store.event("DELETED" if seen.is_gone else "MODIFIED", body)


def owners(api: TwoKinds) -> set[str]:
    """The uids of the jobs that have the objects whose names both want."""
    return {controller(api.objects[place]) for place in OBJECTS}


def test_a_job_that_waited_for_t9ks_of_its_name_runs_once_that_is_gone() -> None:
    api = TwoKinds()
    operator, cluster = Operator(api), Cluster(api)
    first = api.add(T9KS, mpijob("t9k", {"spec/transport": "ssh"}))["metadata"]["uid"]
    operator.work(for_s=5)
    assert owners(api) == {first}
    for pod in cluster.pods():
        cluster.run(pod)

    second = api.add("mpijobs", mpijob("v2beta1", {"spec/transport": "ssh"}))["metadata"]["uid"]
    operator.work(for_s=200)  # it tries again each minute
    assert owners(api) == {first}
    assert [body for body in api.objects.values() if controller(body) == second] == []
    waits = api.objects["mpijobs", "pi"]
    assert "ErrResourceExists" in true_of(waits)
    assert "Running" not in true_of(waits)
    assert operator.events.count("kubeflow: ErrResourceExists") == 1

    api.drop(T9KS, api.objects[T9KS, "pi"])
    cluster.collect_garbage()
    operator.work(for_s=5)
    cluster.finish_deletions()
    operator.work(for_s=70)
    assert owners(api) == {second}
    assert len(cluster.pods("worker")) == 2
    cluster.run_jobs()
    operator.work(for_s=5)
    for pod in cluster.pods():
        cluster.run(pod)
    operator.work(for_s=5)
    runs = api.objects["mpijobs", "pi"]
    assert runs["metadata"]["uid"] == second
    assert "Running" in true_of(runs)
    assert "ErrResourceExists" not in true_of(runs)
