"""What the operator counts, in Prometheus' text format."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Labels = tuple[str, ...]
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counter:
    """A sum by labels that only grows."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        self._name, self._meaning, self._labels = name, meaning, labels
        self._lock = threading.Lock()
        self._values: defaultdict[Labels, float] = defaultdict(float)
        if not labels:
            self._values[()] = 0.0

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Count one more, or `amount`."""
        with self._lock:
            self._values[labels] += amount

    def value(self, *labels: str) -> float:
        """What has been counted under these labels."""
        with self._lock:
            return self._values.get(labels, 0.0)

    def lines(self) -> Iterable[str]:
        """The metric in text."""
        with self._lock:
            values = sorted(self._values.items())
        yield from _head(self._name, self._meaning, "counter")
        for labels, value in values:
            yield _line(self._name, dict(zip(self._labels, labels, strict=True)), value)


class Gauge:
    """Values that are asked for when the metrics are."""

    def __init__(self, name: str, meaning: str, labels: Labels = ()) -> None:
        self._name, self._meaning, self._labels = name, meaning, labels
        self.read: Callable[[], Mapping[Labels, float]] = dict

    def lines(self) -> Iterable[str]:
        """The metric in text."""
        yield from _head(self._name, self._meaning, "gauge")
        for labels, value in sorted(self.read().items()):
            yield _line(self._name, dict(zip(self._labels, labels, strict=True)), value)


class Histogram:
    """How often something took how long, in seconds."""

    def __init__(self, name: str, meaning: str) -> None:
        self._name, self._meaning = name, meaning
        self._lock = threading.Lock()
        self._counts = [0] * (len(_BUCKETS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one that took this long."""
        place = next((place for place, bound in enumerate(_BUCKETS_S) if seconds <= bound), len(_BUCKETS_S))
        with self._lock:
            self._counts[place] += 1
            self._sum_s += seconds

    def lines(self) -> Iterable[str]:
        """The metric in text."""
        with self._lock:
            counts, total_s = list(self._counts), self._sum_s
        yield from _head(self._name, self._meaning, "histogram")
        so_far = 0
        for bound, count in zip((*map(str, _BUCKETS_S), "+Inf"), counts, strict=True):
            so_far += count
            yield _line(f"{self._name}_bucket", {"le": bound}, so_far)
        yield _line(f"{self._name}_sum", {}, total_s)
        yield _line(f"{self._name}_count", {}, so_far)


class Metrics:
    """All of them. The first five are kubeflow's, by name and meaning (mpi-operator v0.8.2, pkg/controller)."""

    def __init__(self) -> None:
        self.jobs_created = Counter("mpi_operator_jobs_created_total", "MPIJobs that got the condition Created.")
        self.jobs_successful = Counter("mpi_operator_jobs_successful_total", "MPIJobs that succeeded.")
        self.jobs_failed = Counter("mpi_operator_jobs_failed_total", "MPIJobs that failed.")
        self.job_info = Gauge("mpi_operator_job_info", "1 for each MPIJob.", ("launcher", "namespace"))
        self.is_leader = Gauge("mpi_operator_is_leader", "1 where this replica leads, else 0.")
        self.queue_depth = Gauge("mpi_operator_queue_depth", "MPIJobs that wait to be planned.")
        self.reconcile_s = Histogram("mpi_operator_reconcile_seconds", "Planning a job and carrying the plan out.")
        self.reconcile_errors = Counter("mpi_operator_reconcile_errors_total", "Tries that failed, by why.", ("why",))
        self.requests = Counter(
            "mpi_operator_api_requests_total", "Requests to the API server; code 0: no answer.", ("verb", "code")
        )
        self.watch_restarts = Counter(
            "mpi_operator_watch_restarts_total", "Watches that ended and began anew, by why.", ("kind", "why")
        )
        self.events_lost = Counter("mpi_operator_events_lost_total", "Events that could not be recorded.")
        self.neighbours = Gauge("mpi_operator_neighbours", "1 for another operator seen for MPIJobs.", ("name",))

    def text(self) -> str:
        """All metrics."""
        return "".join(f"{line}\n" for metric in vars(self).values() for line in metric.lines())


def _head(name: str, meaning: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value:.15g}" if inside else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
