"""The operator's metrics, by `prometheus_client`, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # no `_created` series


class Metrics:
    """All of them. The first five are kubeflow's, by name and meaning (mpi-operator v0.8.2, pkg/controller)."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.infos: dict[Gauge, Callable[[], Iterable[tuple[str, ...]]]] = {}
        """Gauges that are 1 for each set of label values that exists when the metrics are read."""

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(f"mpi_operator_{name}_total", documentation, labels, registry=registry)

        def gauge(name: str, documentation: str, *labels: str) -> Gauge:
            return Gauge(f"mpi_operator_{name}", documentation, labels, registry=registry)

        self.jobs_created = counter("jobs_created", "MPIJobs that got the condition Created.")
        self.jobs_successful = counter("jobs_successful", "MPIJobs that succeeded.")
        self.jobs_failed = counter("jobs_failed", "MPIJobs that failed.")
        self.job_info = gauge("job_info", "1 for each MPIJob.", "launcher", "namespace")
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
        self.watch_restarts = counter("watch_restarts", "Watches that were restarted, by reason.", "kind", "why")
        self.events_lost = counter("events_lost", "Events that could not be recorded.")
        self.other_operators = gauge("neighbours", "1 for another operator seen for MPIJobs.", "name")

    def answered(self, verb: str, code: str) -> None:
        """Count a request to the API server."""
        self.requests.labels(verb, code).inc()

    def text(self) -> str:
        """Return all metrics in Prometheus' text format."""
        for info, read in self.infos.items():
            info.clear()
            for values in sorted(set(read())):
                info.labels(*values).set(1)
        return generate_latest(self.registry).decode()
