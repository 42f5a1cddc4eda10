"""Many jobs at once, and what the operator under them takes."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.kube.kinds import MPI_JOB_V2BETA1, POD, Kind
from tests.benchmarks.measure import BenchmarkError, cpu_s, peak_mib, rss_mib
from tests.cluster.local.daemons import until

from .jobs import NAMESPACE, POD_COUNT, job
from .plane import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.command import Say
    from tests.cluster.local.daemons import Daemon

    from .peers import Peer
    from .plane import Plane

_WORKERS = "training.kubeflow.org/job-role=worker"
_NAMESPACE = Kind("Namespace", "v1", "namespaces")
_DEFINITION = Kind("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions")
_IDLE_S, _AFTER_S = 10.0, 60.0
_START_S, _LONGEST_S = 60.0, 1800.0


@dataclass(frozen=True)
class Burst:
    """One run. CPU and requests are a job's, up to a minute after the last has Succeeded."""

    all_made_s: float
    all_succeeded_s: float
    workers_left: int
    cpu_ms: float
    requests: float
    idle_mib: float
    peak_mib: float


def burst(plane: Plane, peer: Peer, count: int, say: Say) -> Burst:
    """Run as many jobs. Raises BenchmarkError, SetupError."""
    plane.create(_NAMESPACE, {"metadata": {"name": NAMESPACE}})
    operator = _install(plane, peer)
    time.sleep(_IDLE_S)
    pid = _pid(operator)
    idle_mib, cpu_before_s, requests_before = rss_mib(pid), cpu_s(pid), plane.requests()
    made = _Tally(plane.watch(POD, NAMESPACE, partial=True), _added, count * POD_COUNT)
    succeeded = _Tally(plane.watch(MPI_JOB_V2BETA1, NAMESPACE), _succeeded, count)
    bodies = [job(number, dict(peer.spec)) for number in range(count)]
    say(f"{peer.name}: creating {count} jobs")
    began = time.perf_counter()
    for body in bodies:
        plane.create(MPI_JOB_V2BETA1, body, NAMESPACE)
    made_at = made.wait(operator)
    say(f"{peer.name}: all {count * POD_COUNT} pods made after {made_at - began:.1f} s")
    succeeded_at = succeeded.wait(operator)
    say(f"{peer.name}: all {count} jobs Succeeded after {succeeded_at - began:.1f} s")
    time.sleep(_AFTER_S)
    return Burst(
        all_made_s=made_at - began,
        all_succeeded_s=succeeded_at - began,
        workers_left=len(list(plane.api.items(POD.path(NAMESPACE), labelSelector=_WORKERS))),
        cpu_ms=1000 * (cpu_s(_pid(operator)) - cpu_before_s) / count,
        requests=(plane.requests() - requests_before) / count,
        idle_mib=idle_mib,
        peak_mib=peak_mib(pid),
    )


def _install(plane: Plane, peer: Peer) -> Daemon:
    plane.create(_DEFINITION, peer.definition)
    until("the kind's definition", lambda: plane.is_there(MPI_JOB_V2BETA1.path(NAMESPACE)), _START_S)
    operator = plane.daemon(peer.name, *peer.command(plane.kubeconfig(OPERATOR)))
    peer.start(operator)
    return operator


class _Tally:
    """Notes when the last of so many different things was reported."""

    def __init__(self, events: Iterator[bytes], name: Callable[[bytes], str | None], wanted: int) -> None:
        self._events, self._name, self._wanted = events, name, wanted
        self._names: set[str] = set()
        self._at = 0.0
        self._error: Exception | None = None
        self._done = threading.Event()
        threading.Thread(target=self._count, daemon=True).start()

    def wait(self, operator: Daemon) -> float:
        """When it was (perf_counter). Raises BenchmarkError."""
        deadline = time.monotonic() + _LONGEST_S
        while not self._done.wait(1.0):
            _pid(operator)
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{len(self._names)} of {self._wanted} after {_LONGEST_S:.0f} s")
        if self._error:
            raise BenchmarkError(f"a watch ended: {self._error}") from self._error
        return self._at

    def _count(self) -> None:
        try:
            for event in self._events:
                name = self._name(event)
                if name is None:
                    continue
                self._names.add(name)
                if len(self._names) == self._wanted:
                    self._at = time.perf_counter()
                    return
            raise BenchmarkError("the API server has ended it")
        except Exception as error:  # noqa: BLE001 (it is told by `wait`)
            self._error = error
        finally:
            self._done.set()


def _added(event: bytes) -> str | None:
    if not event.startswith(b'{"type":"ADDED"'):
        return None
    return str(json.loads(event)["object"]["metadata"]["name"])


def _succeeded(event: bytes) -> str | None:
    if b'"Succeeded"' not in event and b'"Failed"' not in event:
        return None
    found = json.loads(event)["object"]
    for condition in found.get("status", {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in ("Succeeded", "Failed"):
            if condition["type"] == "Failed":
                raise BenchmarkError(f"{found['metadata']['name']} failed: {condition.get('message')}")
            return str(found["metadata"]["name"])
    return None


def _pid(operator: Daemon) -> int:
    pid = operator.pid
    if pid is None:
        raise BenchmarkError(f"{operator.name} ended: {operator.last_words()}")
    return pid
