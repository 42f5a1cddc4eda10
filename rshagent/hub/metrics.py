"""What the hub counts, in Prometheus' text format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rshagent.launch import Launch

_START_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_RESULTS = ("ok", "exit", "failed", "client_died", "signalled")


class Metrics:
    """Counters over the hub's life."""

    def __init__(self) -> None:
        self._results = dict.fromkeys(_RESULTS, 0)
        self._buckets = [0] * len(_START_BUCKETS_S)
        self._starts, self._start_seconds = 0, 0.0
        self._sent = self._received = self._retries = 0

    def count(self, launch: Launch) -> None:
        """Count an ended launch."""
        self._results[result_of(launch)] += 1
        self._sent += launch.stdio.sent
        self._received += launch.stdio.received
        self._retries += launch.retries
        if launch.times.acknowledged:
            seconds = launch.times.acknowledged - launch.times.created
            self._starts += 1
            self._start_seconds += seconds
            for index, bound in enumerate(_START_BUCKETS_S):
                self._buckets[index] += seconds <= bound

    def text(self, active: int) -> str:
        """Return all metrics; `active` is the number of sessions under way."""
        name = "mpi_agents_hub"
        lines = [
            f"# HELP {name}_sessions_total Ended sessions by result.",
            f"# TYPE {name}_sessions_total counter",
            *(f'{name}_sessions_total{{result="{result}"}} {count}' for result, count in self._results.items()),
            f"# HELP {name}_sessions_active Sessions under way.",
            f"# TYPE {name}_sessions_active gauge",
            f"{name}_sessions_active {active}",
            f"# HELP {name}_start_seconds From the agent's call to the command's start.",
            f"# TYPE {name}_start_seconds histogram",
            *(
                f'{name}_start_seconds_bucket{{le="{bound:g}"}} {count}'
                for bound, count in zip(_START_BUCKETS_S, self._buckets, strict=True)
            ),
            f'{name}_start_seconds_bucket{{le="+Inf"}} {self._starts}',
            f"{name}_start_seconds_sum {self._start_seconds:.6f}",
            f"{name}_start_seconds_count {self._starts}",
            f"# HELP {name}_bytes_total Bytes of stdin (sent) and of stdout and stderr (received).",
            f"# TYPE {name}_bytes_total counter",
            f'{name}_bytes_total{{direction="sent"}} {self._sent}',
            f'{name}_bytes_total{{direction="received"}} {self._received}',
            f"# HELP {name}_retries_total Starts that were tried again.",
            f"# TYPE {name}_retries_total counter",
            f"{name}_retries_total {self._retries}",
        ]
        return "\n".join(lines) + "\n"


def result_of(launch: Launch) -> str:
    """Name how a launch ended, in one of a few words."""
    if launch.is_client_dead:
        return "client_died"
    if launch.ended_by_signal:
        return "signalled"
    if launch.reason:
        return "failed"
    return "ok" if launch.code == 0 else "exit"
