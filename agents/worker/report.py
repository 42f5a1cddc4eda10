"""What is reported: the metrics, the process view, and the ranks with what they wait for, as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from agents.common.metrics import Sample, lines, single
from agents.worker.orphans import Key, Process, session
from agents.worker.waits import Waits

PROCESSES_MAX = 256
"""As many processes have series of their own: ranks first, then the largest. The others are counted."""


class Status(NamedTuple):
    """All that is reported, of one moment."""

    is_ready: bool
    is_debug: bool
    has_sshd: bool = False
    sshd_losses: int = 0
    rotations: tuple[int, int] = (0, 0)
    """Done, failed."""
    processes: Collection[Process] | None = None
    """None: the pod does not share its process namespace."""
    orphans: Collection[Key] = ()
    orphans_ended: int = 0
    orphans_denied: int = 0


def metrics(status: Status) -> str:
    """Return all metrics."""
    return "".join(_metrics(status))


def _metrics(status: Status) -> Iterator[str]:
    yield from single("mpi_worker_ready", "gauge", "1 while /readyz says yes.", status.is_ready)
    yield from single("mpi_worker_debug", "gauge", "1 while the order is debug.", status.is_debug)
    if status.has_sshd:
        meaning = "How often sshd stopped answering."
        yield from single("mpi_worker_sshd_losses_total", "counter", meaning, status.sshd_losses)
        results = zip(("done", "failed"), status.rotations, strict=True)
        rotations = [Sample(count, {"result": result}) for result, count in results]
        meaning = "Changes of the Secret's keys, by result."
        yield from lines("mpi_worker_key_rotations_total", "counter", meaning, rotations)
    meaning = "1 where the pod shares its process namespace."
    yield from single("mpi_worker_process_view", "gauge", meaning, status.processes is not None)
    if status.processes is not None:
        yield from _process_metrics(status, status.processes)


def _process_metrics(status: Status, processes: Collection[Process]) -> Iterator[str]:
    states = Counter(process.state for process in processes)
    counts = [Sample(count, {"state": state}) for state, count in sorted(states.items())]
    yield from lines("mpi_worker_processes", "gauge", "Processes of the pod, by state.", counts)
    order = sorted(processes, key=lambda process: (process.rank is None, -process.rss_bytes, process.pid))
    shown = [(process, _labels(process)) for process in order[:PROCESSES_MAX]]
    omitted = len(processes) - len(shown)
    yield from single("mpi_worker_processes_omitted", "gauge", "Processes without series of their own.", omitted)
    rss = [Sample(process.rss_bytes, labels) for process, labels in shown]
    yield from lines("mpi_worker_process_resident_bytes", "gauge", "Resident memory of a process.", rss)
    cpu = [Sample(process.cpu_s, labels) for process, labels in shown]
    yield from lines("mpi_worker_process_cpu_seconds_total", "counter", "CPU time of a process.", cpu)
    orphans = len(status.orphans)
    yield from single("mpi_worker_leftovers", "gauge", "Processes that have outlived their launch.", orphans)
    ended = status.orphans_ended
    yield from single("mpi_worker_leftovers_ended_total", "counter", "Leftover processes that were terminated.", ended)
    environments = sum(process.is_denied for process in processes)
    denied = [Sample(environments, {"what": "environment"}), Sample(status.orphans_denied, {"what": "signal"})]
    meaning = "Processes of another uid, by what it denies us."
    yield from lines("mpi_worker_denied", "gauge", meaning, denied)


def _labels(process: Process) -> dict[str, str]:
    rank = "" if process.rank is None else str(process.rank)
    return {"pid": str(process.pid), "name": process.name, "rank": rank}


NOT_SHARED = "the pod does not share its process namespace (shareProcessNamespace)"


def process_view(status: Status, message: str) -> str:
    """Return a status as one JSON object in a line; `message` is what /readyz says."""
    document: dict[str, object] = {
        "ready": status.is_ready,
        "order": "debug" if status.is_debug else "run",
        "message": message,
        "processes": None,
    }
    if status.processes is None:
        document["why_no_processes"] = NOT_SHARED
    else:
        document |= {
            "processes": [_process(process, is_orphan=process.key in status.orphans) for process in status.processes],
            "leftovers_ended": status.orphans_ended,
            "denied": {
                "environment": sum(process.is_denied for process in status.processes),
                "signal": status.orphans_denied,
            },
        }
    import json  # noqa: PLC0415 (for those who ask)

    return json.dumps(document) + "\n"


def _process(process: Process, *, is_orphan: bool) -> dict[str, object]:
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "name": process.name,
        "state": process.state,
        "uid": process.uid,
        "rss_bytes": process.rss_bytes,
        "cpu_s": round(process.cpu_s, 2),
        "rank": process.rank,
        "launch": session(process.launch) or None,
        "leftover": is_orphan,
        "environment_denied": process.is_denied,
    }


def rank_view(processes: Iterable[Process], waits: Callable[[int], Waits], at: float) -> str:
    """Return the ranks' processes as one JSON object in a line; `at`: seconds of a clock that is never set."""
    ranks, denied = [], 0
    for process in processes:
        denied += process.is_denied
        if process.rank is not None:
            wait = waits(process.pid)
            about = {"call": wait.call, "file": wait.file, "function": wait.function, "stack": wait.stack}
            ranks.append({**_process(process, is_orphan=False), "started": process.started, **about})
    import json  # noqa: PLC0415 (for those who ask)

    return json.dumps({"at": at, "environment_denied": denied, "ranks": ranks}) + "\n"
