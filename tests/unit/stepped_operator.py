"""The real operator without its threads: a test says when its watches tell something, and when it plans."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from simulated_api import KilledError
from simulated_cluster import controller, role

from agents.job.model import GROUP, T9K_GROUP, VIRTUAL_GROUP
from agents.job.run_mode import WAIT
from agents.job.status import conditions_of
from agents.kube.api import Api
from agents.kube.kinds import BATCH_JOB, MPI_JOB_T9K, MPI_JOB_V2BETA1, POD, VIRTUAL_CLUSTER
from agents.operator.actions import Create, Delete, DeleteWorkers, WriteStatus
from agents.operator.caches import Caches, Key, key_of
from agents.operator.controller import Controller, Scope
from agents.operator.executor import Executor
from agents.operator.metrics import Metrics
from agents.operator.plan import plan
from agents.operator.queue import Queue
from agents.operator.settings import FIELD_MANAGER, PodSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulated_api import SimulatedApi

    from agents.job.status import Event
    from agents.operator.actions import Action, Plan
    from agents.operator.planning.view import Observed

Body = dict[str, Any]


class SteppedOperator:
    """Plans jobs when there is cause to: an event, what it did itself, a failed request, or the time it named."""

    def __init__(self, api: SimulatedApi, settings: PodSettings | None = None) -> None:
        self.api = api
        self.settings = settings or PodSettings(image="mpi-agents:test")
        self.events: list[tuple[str, str, str]] = []
        self.behind_s = 0.0  # how far its clock is behind the API server's
        self.is_mistaken = False  # whether it has planned beside a launcher that it did not know, of another debug mode
        self.acts = 10**6  # how many batches of actions it begins before its lease is lost for a while
        self.start()

    def start(self) -> None:
        """Begin with no memory, and list."""
        metrics = Metrics()
        requests = Api(self.api, agent="mpi-operator", manager=FIELD_MANAGER)  # type: ignore[arg-type]
        self.caches = Caches(
            [MPI_JOB_V2BETA1, MPI_JOB_T9K, VIRTUAL_CLUSTER],
            self.settings.gang_scheduler,
            on_job=lambda key: self.queue.add(key),  # noqa: PLW0108 (bound later)
        )
        self.queue = Queue[Key](lambda: self.api.now, lambda: 1.0, is_large=self.caches.is_large)
        executor = _Checked(self, requests, metrics)
        self.controller = Controller(
            self._planned,
            self.caches,
            self.queue,
            executor,
            self.settings,
            metrics,
            Scope(may_act=self._may_act),
            lambda: self.api.now - self.behind_s,
        )
        self._informers = {
            one.store.kind.resource if one.store.kind is MPI_JOB_T9K else one.store.kind.plural: one
            for one in (
                *self.caches.informers(GROUP, requests, metrics, ()),
                *self.caches.informers(T9K_GROUP, requests, metrics, ()),
                *self.caches.informers(VIRTUAL_GROUP, requests, metrics, ()),
                *self.caches.informers_of_made(requests, metrics, ()),
            )
        }
        for informer in self._informers.values():
            informer.stopping = _NoWait()
            informer.turn()
        self._told = dict.fromkeys(self._informers, self.api.objects.version)
        self._idle_at: tuple[object, ...] = ()

    # What comes in.

    def deliver(self, plural: str, most: int = 10**6) -> None:
        """Let so many of the watch events of one kind, if it is watched, come in."""
        if plural not in self._told:
            return
        objects, told = self.api.objects, self._told[plural]
        self._told[plural] = objects.version
        if not objects.since_of(plural, told):
            return
        self.api.most = most
        informer = self._informers[plural]
        informer.turn()
        if not informer.version:
            informer.turn()  # it was told 410
        self.api.most = 10**6
        if objects.since_of(plural, int(informer.version)):
            self._told[plural] = told

    def deliver_all(self) -> None:
        for plural in self._informers:
            self.deliver(plural)

    # What it does.

    def has_cause(self) -> bool:
        return len(self.queue) > 0

    def next_at(self) -> float | None:
        """When there will be cause, whatever comes."""
        return self.queue.next_at()

    def step(self) -> None:
        """Plan the next job that there is cause to plan, and act."""
        key = self.queue.get(0.0)
        if key is None:
            return
        try:
            self.controller.reconcile(key)
        finally:
            self.queue.done(key)

    def reconcile(self, kills_in: int | None = None) -> None:
        """Plan once, with or without cause, and act; it may be killed after so many requests."""
        for job in self.caches.all_jobs():
            self.queue.add(key_of(job))
        self.api.kills_in = kills_in
        try:
            self.step()
        except KilledError:
            self.api.kills_in = None
            self.start()
        self.api.kills_in, self.acts = None, 10**6

    def reconcile_if_changed(self) -> None:
        """Plan with all news, unless the last such plan asked for nothing and nothing has changed: it would again."""
        self.deliver_all()
        before = self._outside()
        if before != self._idle_at:
            self.reconcile()
            self._idle_at = before if self._outside() == before else ()

    def _outside(self) -> tuple[object, ...]:
        return self.api.objects.version, self.api.now, len(self.api.requests)

    def _planned(self, job: Any, observed: Observed, settings: PodSettings, now: float) -> Plan:
        if not isinstance(job, tuple):
            seen = [*observed.pods, *([observed.launcher_job] if observed.launcher_job else [])]
            known = {one["metadata"]["uid"] for one in seen}
            real = [one for one in self.api.all("pods") if role(one) == "launcher" and controller(one) == job.uid]
            real += [one for one in self.api.all("jobs") if controller(one) == job.uid]
            modes = {WAIT[-1] in json.dumps(one["spec"]) for one in real if one["metadata"]["uid"] not in known}
            self.is_mistaken |= bool(modes - {job.debug is not None})
        planned = plan(job, observed, settings, now)
        actions = [one for step in planned.steps for one in step]
        makes_pods = any(isinstance(one, Create) and one.kind in (POD, BATCH_JOB) for one in actions)
        assert not makes_pods or isinstance(planned.steps[0][0], WriteStatus)
        return planned

    def _may_act(self) -> bool:
        self.acts -= 1
        return self.acts >= 0

    def emit(self, _resource: Body, event: Event) -> None:
        self.events.append((event.type, event.reason, event.message))


class _NoWait(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return False


class _Inline(Pool):
    """Carries out the first of some requests last."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        made = Future[Any]()
        made.set_result(fn(*args, **kwargs))
        return made


class _Checked(Executor):
    """Checks what no later state tells."""

    def __init__(self, operator: SteppedOperator, requests: Api, metrics: Metrics) -> None:
        super().__init__(requests, operator.caches, operator, metrics, _Inline())  # type: ignore[arg-type]
        self._server = operator.api

    def _do(self, resource: Body, memory: Any, action: Action, now: float) -> None:
        if isinstance(action, Delete | DeleteWorkers) and action.reason == "suspended":
            is_worker = isinstance(action, DeleteWorkers) or not any(
                one in action.name for one in ("-launcher", "pi-login")
            )
            assert not (is_worker and self._saves(resource)), "a worker goes while ranks have time to save"
        if isinstance(action, Delete | DeleteWorkers) and action.grace_s is not None:
            assert not self._saves(resource, is_over=False), "a worker goes at once while ranks may be left in it"
        assert not (isinstance(action, Create) and action.key_type) or "data" not in action.body
        super()._do(resource, memory, action, now)

    def _saves(self, resource: Body, *, is_over: bool = True) -> bool:
        """Whether a launcher that it knows of has been told to end and may still, or was not even told.

        `is_over`: its grace period may be.
        """
        known = self._caches.observe(resource, frozenset(), {}).pods
        found = [self._server.find("pods", one["metadata"]["name"]) for one in known if role(dict(one)) == "launcher"]
        return any(pod is not None and _has_time(pod, self._server.clock() if is_over else "") for pod in found)


def is_being_stopped(job: Body, pod: Body) -> bool:
    """Whether a suspension, also one that the user has taken back since, told this pod to end, or debug mode did."""
    spec = job["spec"]
    pause = spec.get("runMode", {}).get("pause", {}).get("enabled")
    no_success = ("Suspended", "Debugging")
    was_told = any(one["type"] in no_success and one["status"] == "True" for one in conditions_of(job))
    is_suspended = pause or spec.get("runPolicy", {}).get("suspend") or was_told
    return bool(is_suspended) and "deletionTimestamp" in pod["metadata"]


def _has_time(pod: Body, now: str) -> bool:
    """Whether a launcher's program runs, within its grace period; a batch Job's pod that is not told yet has none."""
    by = pod["metadata"].get("deletionTimestamp")
    has_ended = all("terminated" in one["state"] for one in pod["status"].get("containerStatuses", [])[:1])
    owner = pod["metadata"]["ownerReferences"][0]
    is_untold = by is None and owner["kind"] in ("MPIJob", "VirtualCluster")
    return pod["status"]["phase"] == "Running" and not has_ended and (is_untold or (by is not None and now < by))
