"""The operator as a whole: what is started in which order, and how it ends."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agents.operator.api import Api
from agents.operator.caches import Caches, Key
from agents.operator.controller import Controller
from agents.operator.errors import ApiError, NotFoundError
from agents.operator.executor import Executor
from agents.operator.http_server import Answer, HttpServer
from agents.operator.kinds import MPI_JOB_V1, MPI_JOB_V2BETA1, Kind
from agents.operator.leader import Leader
from agents.operator.metrics import Metrics
from agents.operator.neighbours import Adopt, Adoption, Neighbours
from agents.operator.queue import Queue
from agents.operator.recorder import Recorder

if TYPE_CHECKING:
    from agents.operator.access import Access
    from agents.operator.controller import Planner
    from agents.operator.informer import Informer
    from agents.operator.settings import PodSettings

_LOG = logging.getLogger(__name__)
_LEASE_REQUEST_S = 4.0
_CRD_WAIT_S = 2.0
_STEPS_END_S = 6.0  # for requests that have begun; then the lease is handed over all the same
_EVENTS_END_S = 3.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beside what goes into pods."""

    namespaces: tuple[str, ...] = ()
    selector: str = ""
    adopt: Adopt = Adopt.AUTO
    workers: int = 8
    elects: bool = True
    lease_namespace: str = "default"
    lease_name: str = "mpi-agents-operator"
    identity: str = field(default_factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}")


class Process:
    """One operator process. `stop` may be called at any time, by any thread or signal handler."""

    def __init__(self, access: Access, plan: Planner, settings: PodSettings, options: Options) -> None:
        self._access, self._plan, self._settings, self._options = access, plan, settings, options
        self._stop = threading.Event()
        self._is_lost = False
        self._metrics = Metrics()
        self._api = Api(access, self._metrics)
        self._leader = Leader(
            Api(access, self._metrics, timeout_s=_LEASE_REQUEST_S),
            options.lease_namespace,
            options.lease_name,
            options.identity,
        )
        self._informers: list[Informer] = []
        self._controller: Controller | None = None
        self._metrics.is_leader.read = lambda: {(): float(self._leads())}

    def serve(self, host: str, port: int) -> HttpServer:
        """Answer probes and Prometheus. Raises OSError."""
        routes = {"/healthz": self._healthy, "/readyz": self._ready, "/metrics": lambda: (200, self._metrics.text())}
        server = HttpServer(host, port, routes)
        server.start()
        return server

    def stop(self) -> None:
        """End in good order, soon."""
        self._stop.set()

    def run(self) -> bool:
        """Work until stopped; False if the lease was lost: another may lead by now."""
        self._leader.on_lost = self._lost
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
        options, caches, queue = self._options, Caches(kind, self._settings.gang_scheduler), Queue[Key]()
        recorder = Recorder(self._api, self._metrics, socket.gethostname())
        executor = Executor(self._api, caches, recorder, self._metrics)
        settings = replace(self._settings, owner_version=self._preferred(kind))
        controller = Controller(self._plan, caches, queue, executor, settings, self._metrics)
        neighbours = Neighbours(self._api, options.lease_namespace, options.lease_name)
        adopt = Adopt.ALL if options.adopt is Adopt.AUTO and (options.namespaces or options.selector) else options.adopt
        controller.takes = Adoption(adopt, neighbours.is_alone).takes
        controller.may_act = lambda: self._leads() and not self._stop.is_set()
        caches.on_job = queue.add
        neighbours.on_change = lambda: _add_all(caches, queue)
        self._metrics.queue_depth.read = lambda: {(): float(len(queue))}
        self._metrics.job_info.read = lambda: _job_info(caches)
        self._metrics.neighbours.read = lambda: {(name,): 1.0 for name in neighbours.seen()}
        if adopt is Adopt.AUTO:
            neighbours.start()
        self._informers = caches.informers(self._api, self._metrics, options.namespaces, options.selector)
        for informer in self._informers:
            informer.start()
        recorder.start()
        if self._synced():
            _LOG.info("%d MPIJobs are known; working with %d workers", len(caches.jobs), options.workers)
            self._controller = controller
            controller.start(options.workers)
            self._stop.wait()
            if not controller.stop(_STEPS_END_S):
                _LOG.warning("some requests have not ended within %g s", _STEPS_END_S)
        neighbours.stop()
        for informer in self._informers:
            informer.stop()
        if not self._is_lost:
            recorder.stop(_EVENTS_END_S)

    def _synced(self) -> bool:
        """Wait for the caches; False if stopped before."""
        while not self._stop.is_set():
            if all(informer.synced.wait(0.05) for informer in self._informers):
                return True
        return False

    def _leads(self) -> bool:
        return self._leader.leads() if self._options.elects else self._controller is not None

    def _lost(self) -> None:
        self._is_lost = True
        self._stop.set()

    def _served(self) -> Kind | None:
        """Wait until the API server has MPIJobs, and return the version to read them by; None if stopped before."""
        said = ""
        while not self._stop.is_set():
            words = "the API server has no MPIJobs (mpijobs.kubeflow.org): waiting for their CRD"
            try:
                for kind in (MPI_JOB_V2BETA1, MPI_JOB_V1):
                    if self._has(kind):
                        return kind
            except ApiError as error:
                words = f"waiting for the API server: {error}"
            if words != said:
                said = words
                _LOG.warning("%s", words)
            self._stop.wait(_CRD_WAIT_S)
        return None

    def _preferred(self, kind: Kind) -> str:
        """Return the version that the API server names first for MPIJobs' group; the one we read if it won't say."""
        try:
            group = self._api.get(f"/apis/{kind.api_version.partition('/')[0]}")
        except ApiError:
            return kind.api_version
        return str((group.get("preferredVersion") or {}).get("groupVersion") or kind.api_version)

    def _has(self, kind: Kind) -> bool:
        try:
            resources = self._api.get(f"/apis/{kind.api_version}").get("resources") or ()
        except NotFoundError:
            return False
        return any(each.get("name") == kind.plural for each in resources)

    def _healthy(self) -> Answer:
        threads = [each.is_alive for each in self._informers]
        threads += [self._controller.is_alive] if self._controller else []
        return (200, "ok\n") if all(threads) or self._stop.is_set() else (500, "a thread has ended\n")

    def _ready(self) -> Answer:
        if self._options.elects and not self._leader.leads():
            complaint = self._leader.complaint
            return (
                (503, f"{complaint}\n") if complaint else (200, f"standby; {self._leader.holder or 'nobody'} leads\n")
            )
        complaints = sorted({each.complaint for each in self._informers if each.complaint})
        if self._controller is None or complaints:
            return 503, "".join(f"{each}\n" for each in complaints) or "the caches are being filled\n"
        return 200, "leading\n"


def _add_all(caches: Caches, queue: Queue[Key]) -> None:
    for job in caches.jobs.all():
        queue.add((job["metadata"]["namespace"], job["metadata"]["name"]))


def _job_info(caches: Caches) -> dict[tuple[str, ...], float]:
    jobs = [job["metadata"] for job in caches.jobs.all()]
    return {(f"{metadata['name']}-launcher", metadata["namespace"]): 1.0 for metadata in jobs}
