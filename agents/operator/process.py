"""The operator process: starts its parts in order, and stops them."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from agents.job.read import dialect_of
from agents.kube.access import Access
from agents.kube.api import Api
from agents.kube.errors import ApiError, NotFoundError
from agents.kube.kinds import JOBS, MPI_JOB_T9K, MPI_JOB_V1, MPI_JOB_V2BETA1, VIRTUAL_CLUSTER, Kind
from agents.operator.actions import Plan
from agents.operator.caches import Caches, Key, group_of, key_of
from agents.operator.controller import Controller, Planner, Scope
from agents.operator.executor import Executor
from agents.operator.http_server import Answer, HttpServer
from agents.operator.image_volumes import ImageVolumes, ProgramDelivery
from agents.operator.informer import Informer
from agents.operator.leader import Leader
from agents.operator.metrics import Metrics
from agents.operator.other_operators import NAMESPACES, Claim, OtherOperators, claims
from agents.operator.plan import leave_to_others
from agents.operator.queue import Queue
from agents.operator.recorder import Recorder
from agents.operator.settings import FIELD_MANAGER, PodSettings

_LOG = logging.getLogger(__name__)
_REQUEST_S = 30.0
LEASE_REQUEST_S = 4.0
_START_REQUEST_S = 8.0  # for requests at the start: a process that is stopped meanwhile has 30 s in all
_CRD_WAIT_S = 2.0
OPTIONAL_WAIT_S = 15.0  # between two looks for the optional kinds
_OPTIONAL = {MPI_JOB_T9K: "T9k's MPIJobs", VIRTUAL_CLUSTER: "VirtualClusters"}  # kinds that a cluster may not have
STEPS_END_S = 6.0  # for requests in progress; then the lease is handed over anyway
EVENTS_END_S = 3.0


class T9k(StrEnum):
    """Whether T9k's MPIJobs are managed: once the API server serves them, always, or never."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Options:
    """Command line options, except those for pods (`PodSettings`)."""

    namespaces: tuple[str, ...] = ()
    selector: str = ""
    claim: Claim = Claim.AUTO
    other_operator_namespaces: tuple[str, ...] = NAMESPACES
    t9k: T9k = T9k.AUTO
    program_delivery: ProgramDelivery = ProgramDelivery.INIT
    workers: int = 8
    elects: bool = True
    lease_namespace: str = "default"
    lease_name: str = "mpi-agents-operator"
    identity: str = field(default_factory=lambda: own_identity(os.environ, os.getpid()))


def own_identity(environ: Mapping[str, str], pid: int) -> str:
    """Return the lease identity: unique, but the same after a restart of the container.

    The kubelet starts a container again when its process is dead: it takes its own lease back without a wait. A
    process that was started in the container by hand is not its process 1.
    """
    uid = environ.get("POD_UID") if pid == 1 else ""
    return f"{socket.gethostname()}_{uid or uuid.uuid4().hex[:12]}"


class Process:
    """One operator process. `stop` may be called at any time, by any thread or signal handler."""

    def __init__(self, access: Access, plan: Planner, settings: PodSettings, options: Options) -> None:
        self._access, self._plan, self._settings, self._options = access, plan, settings, options
        self._stop = threading.Event()
        self._is_lost = False
        self._waits_for = ""  # why it does not even ask for the lease
        self._metrics = Metrics()
        self._api = self._requests(_REQUEST_S)
        self._quick = self._requests(_START_REQUEST_S)
        self._leader = Leader(
            self._requests(LEASE_REQUEST_S),
            options.lease_namespace,
            options.lease_name,
            options.identity,
            on_lost=self._lost,
        )
        self._informers: list[Informer] = []
        self._controller: Controller | None = None
        self._metrics.is_leader.set_function(self._leads)

    def _requests(self, timeout_s: float) -> Api:
        answered = self._metrics.answered
        return Api(self._access, agent="mpi-operator", manager=FIELD_MANAGER, timeout_s=timeout_s, answered=answered)

    def serve(self, host: str, port: int) -> HttpServer:
        """Serve probes and metrics. Raises OSError."""
        routes = {"/healthz": self._healthy, "/readyz": self._ready, "/metrics": lambda: (200, self._metrics.text())}
        server = HttpServer(host, port, routes)
        server.start()
        return server

    def stop(self) -> None:
        """Stop gracefully, soon."""
        self._stop.set()

    def run(self) -> bool:
        """Run until stopped; False if the lease was lost, and another replica may lead."""
        kind = self._served()
        if kind is None or (self._options.elects and not self._leader.acquire(self._stop)):
            return True
        try:
            self._lead(kind)
        finally:
            if self._options.elects and not self._is_lost:
                self._leader.release()
        return not self._is_lost

    def _lead(self, kind: Kind) -> None:
        options = self._options
        # Caches and queue know each other: a changed job is queued, and the queue asks which jobs are large.
        caches = Caches((kind, *_OPTIONAL), self._settings.gang_scheduler, on_job=lambda key: queue.add(key))  # noqa: PLW0108 (bound later)
        queue = Queue[Key](turn=lambda key: key.namespace, is_large=caches.is_large)
        recorder = Recorder(self._api, self._metrics, socket.gethostname())
        executor = Executor(self._api, caches, recorder, self._metrics)
        settings = replace(self._settings, owner_version=owner_version(self._quick, kind))
        other_operators = OtherOperators(
            *(self._api, options.lease_namespace, options.lease_name, options.other_operator_namespaces),
            on_change=lambda: _add_all(caches, queue),
            stop=self._stop,
        )
        claim = Claim.ALL if options.claim is Claim.AUTO and (options.namespaces or options.selector) else options.claim
        is_claimed = partial(claims, claim, other_operators.is_alone)
        scope = Scope(
            claims=lambda job: self._knows(job["metadata"].get("namespace")) and is_claimed(job),
            plan_unclaimed=lambda job, body, now: (
                Plan() if is_claimed(body) else leave_to_others(job, body, other_operators.others(group_of(body)), now)
            ),
            may_act=lambda: self._leads() and not self._stop.is_set(),
        )
        volumes = ImageVolumes(self._quick, options.program_delivery, self._stop)
        controller = Controller(
            lambda job, observed, settings, now: self._plan(job, observed, volumes.applied(settings), now),
            *(caches, queue, executor, settings, self._metrics, scope),
        )
        self._metrics.queue_depth.set_function(queue.__len__)
        self._metrics.infos[self._metrics.job_info] = lambda: _job_info(caches)
        self._metrics.infos[self._metrics.other_operators] = lambda: [(name,) for name in other_operators.seen()]
        if claim is Claim.AUTO:  # no job is claimed before the first check
            other_operators.start()
        self._inform(
            caches.informers_of_made(
                self._api, self._metrics, options.namespaces, on_synced=lambda: _add_all(caches, queue)
            )
        )
        self._inform_of_jobs(kind, caches)
        self._inform_of_optional(caches)
        recorder.start()
        volumes.start()
        if self._synced():
            _LOG.info("caches synced: %d MPIJobs; starting %d workers", len(caches.all_jobs()), options.workers)
            self._controller = controller
            controller.start(options.workers)
            self._stop.wait()
            if not controller.stop(STEPS_END_S):
                _LOG.warning("some requests did not finish within %g s", STEPS_END_S)
        for informer in self._informers:
            informer.stop()
        if not self._is_lost:
            recorder.stop(EVENTS_END_S)

    def _inform(self, informers: list[Informer]) -> None:
        self._informers += informers
        for informer in informers:
            informer.start()

    def _inform_of_jobs(self, kind: Kind, caches: Caches) -> None:
        options = self._options
        self._inform(caches.informers(kind.group, self._api, self._metrics, options.namespaces, options.selector))

    def _inform_of_optional(self, caches: Caches) -> None:
        """Begin with the optional kinds that are served or were asked for, and look for the others later."""
        missing = []
        for kind, title in _OPTIONAL.items():
            wanted = self._wanted(kind)
            if wanted is T9k.ON or (wanted is T9k.AUTO and self._is_served(kind)):
                self._inform_of_jobs(kind, caches)
                _LOG.info("also managing %s (%s)", title, kind.resource)
            elif wanted is T9k.AUTO:
                _LOG.info("the API server does not serve %s (%s): checking again periodically", kind.resource, title)
                missing.append(kind)
        if missing:
            threading.Thread(target=self._await_optional, args=(missing, caches), name="optional", daemon=True).start()

    def _await_optional(self, missing: list[Kind], caches: Caches) -> None:
        while missing and not self._stop.wait(OPTIONAL_WAIT_S):
            for kind in [one for one in missing if self._is_served(one)]:
                _LOG.info("the API server now serves %s (%s)", _OPTIONAL[kind], kind.resource)
                self._inform_of_jobs(kind, caches)
                missing.remove(kind)

    def _wanted(self, kind: Kind) -> T9k:
        return self._options.t9k if kind is MPI_JOB_T9K else T9k.AUTO

    def _is_served(self, kind: Kind) -> bool:
        try:
            return not self._stop.is_set() and is_served(self._quick, kind)
        except ApiError:
            return False

    def _may_be_missing(self) -> list[Informer]:
        """Return the informers of kinds that were not asked for."""
        optional = [each for each in self._informers if each.store.kind in _OPTIONAL]
        return [each for each in optional if self._wanted(each.store.kind) is T9k.AUTO]

    def _synced(self) -> bool:
        """Wait for the caches, except of optional kinds that were not asked for; False if stopped before.

        A namespace that is gone, with our rights in it, holds up no other.
        """
        later = self._may_be_missing()
        while not self._stop.is_set():
            missing = [each for each in self._informers if each not in later and not each.synced.is_set()]
            is_any_known = any(map(self._knows, self._options.namespaces))
            if not missing or (is_any_known and all(each.complaint for each in missing)):
                return True
            missing[0].synced.wait(0.05)
        return False

    def _knows(self, namespace: str | None) -> bool:
        """Whether all that has been made in a namespace is known: none of its jobs is planned before."""
        made = (each for each in self._informers if each.store.kind.name not in JOBS)
        return all(each.synced.is_set() for each in made if each.namespace in (None, namespace))

    def _leads(self) -> bool:
        return self._leader.leads() if self._options.elects else self._controller is not None

    def _lost(self) -> None:
        self._is_lost = True
        self._stop.set()

    def _served(self) -> Kind | None:
        """Wait until the API server has MPIJobs, and return the version to read them by; None if stopped before."""
        while not self._stop.is_set():
            message = "the API server has no MPIJobs (mpijobs.kubeflow.org): waiting for their CRD"
            try:
                for kind in (MPI_JOB_V2BETA1, MPI_JOB_V1):
                    if is_served(self._quick, kind):
                        self._waits_for = ""
                        return kind
            except ApiError as error:
                message = f"waiting for the API server: {error}"
            if message != self._waits_for:
                self._waits_for = message
                _LOG.warning("%s", message)
            self._stop.wait(_CRD_WAIT_S)
        return None

    def _healthy(self) -> Answer:
        threads = [each.is_alive for each in self._informers]
        threads += [self._controller.is_alive] if self._controller else []
        return (200, "ok\n") if all(threads) or self._stop.is_set() else (500, "a thread has died\n")

    def _ready(self) -> Answer:
        if self._options.elects and not self._leader.leads():
            complaint = self._waits_for or self._leader.complaint
            return (
                (503, f"{complaint}\n") if complaint else (200, f"standby; {self._leader.holder or 'nobody'} leads\n")
            )
        waived = [each for each in self._may_be_missing() if each.is_missing]  # a definition may go as it came
        # An older role has no right to virtual clusters, and MPIJobs are managed anyway.
        waived += [each for each in self._informers if each.store.kind == VIRTUAL_CLUSTER and each.is_forbidden]
        complaints = sorted({each.complaint for each in self._informers if each.complaint and each not in waived})
        if self._controller is None or complaints:
            return 503, "".join(f"{each}\n" for each in complaints) or "waiting for the caches to sync\n"
        return 200, "leading\n"


def owner_version(api: Api, kind: Kind) -> str:
    """Return the version that the garbage collector knows MPIJobs by; the one we read if the API server won't say.

    It is the group's preferred one, if MPIJobs are served by it: kubeflow's other kinds share the group, and what
    names its owner by a version that has no MPIJobs is never collected.
    """
    try:
        group = api.get(f"/apis/{kind.group}")
        preferred = str((group.get("preferredVersion") or {}).get("groupVersion") or kind.api_version)
        return preferred if is_served(api, replace(kind, api_version=preferred)) else kind.api_version
    except ApiError:
        return kind.api_version


def is_served(api: Api, kind: Kind) -> bool:
    """Whether the API server has this kind in this version. Raises ApiError."""
    try:
        resources = api.get(f"/apis/{kind.api_version}").get("resources") or ()
    except NotFoundError:
        return False
    return any(each.get("name") == kind.plural for each in resources)


def _add_all(caches: Caches, queue: Queue[Key]) -> None:
    for job in caches.all_jobs():
        queue.add(key_of(job))


def _job_info(caches: Caches) -> list[tuple[str, ...]]:
    jobs = [(dialect_of(job, "").launcher_suffix, job["metadata"]) for job in caches.all_jobs()]
    return [(f"{metadata['name']}-{suffix}", metadata["namespace"]) for suffix, metadata in jobs]
