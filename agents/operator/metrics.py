"""The operator's metrics, by `prometheus_client`, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # no `_created` series


class InfoGauge(Collector):
    """A gauge that is 1 for each set of label values that exists when the metrics are read."""

    def __init__(self, registry: CollectorRegistry, name: str, documentation: str, labels: tuple[str, ...]) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._read: Callable[[], Iterable[tuple[str, ...]]] = tuple
        registry.register(self)

    def set_function(self, read: Callable[[], Iterable[tuple[str, ...]]]) -> None:
        """Get the sets of label values from this function."""
        self._read = read

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric without samples."""
        yield GaugeMetricFamily(self._name, self._documentation, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric."""
        for family in self.describe():
            for values in sorted(set(self._read())):
                family.add_metric(values, 1)
            yield family


class Metrics:
    """All of them. The first five are kubeflow's, by name and meaning (mpi-operator v0.8.2, pkg/controller)."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(f"mpi_operator_{name}_total", documentation, labels, registry=registry)

        def gauge(name: str, documentation: str) -> Gauge:
            return Gauge(f"mpi_operator_{name}", documentation, registry=registry)

        self.jobs_created = counter("jobs_created", "MPIJobs that got the condition Created.")
        self.jobs_successful = counter("jobs_successful", "MPIJobs that succeeded.")
        self.jobs_failed = counter("jobs_failed", "MPIJobs that failed.")
        self.job_info = InfoGauge(registry, "mpi_operator_job_info", "1 for each MPIJob.", ("launcher", "namespace"))
        self.is_leader = gauge("is_leader", "1 where this replica leads, else 0.")
        self.queue_depth = gauge("queue_depth", "MPIJobs that wait to be planned.")
        self.reconcile_s = Histogram(
            "mpi_operator_reconcile_seconds",
            "Planning a job and carrying the plan out.",
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.reconcile_errors = counter("reconcile_errors", "Tries that failed, by why.", "why")
        self.requests = counter("api_requests", "Requests to the API server; code 0: no answer.", "verb", "code")
        self.watch_restarts = counter("watch_restarts", "Watches that ended and began anew, by why.", "kind", "why")
        self.events_lost = counter("events_lost", "Events that could not be recorded.")
        self.other_operators = InfoGauge(
            registry, "mpi_operator_neighbours", "1 for another operator seen for MPIJobs.", ("name",)
        )

    def answered(self, verb: str, code: str) -> None:
        """Count a request to the API server."""
        self.requests.labels(verb, code).inc()

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry).decode()
