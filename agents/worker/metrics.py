"""What the worker agent counts, in Prometheus' text format. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from agents.worker.leftovers import Key, Process

PROCESSES_MAX = 256
"""As many processes have series of their own: ranks first, then the largest. The others are counted."""


class Status(NamedTuple):
    """All that is told, of one moment."""

    is_ready: bool
    is_debug: bool
    has_sshd: bool = False
    sshd_losses: int = 0
    rotations: tuple[int, int] = (0, 0)
    """Done, failed."""
    processes: Collection[Process] | None = None
    """None: the pod does not share its process namespace."""
    leftovers: Collection[Key] = ()
    leftovers_ended: int = 0
    leftovers_denied: int = 0


def text(status: Status) -> str:
    """Return all metrics."""
    return "".join(f"{line}\n" for line in _lines(status))


def _lines(status: Status) -> Iterator[str]:
    yield from _metric("ready", "gauge", "1 while /readyz says yes.", [({}, status.is_ready)])
    yield from _metric("debug", "gauge", "1 while the order is debug.", [({}, status.is_debug)])
    if status.has_sshd:
        yield from _metric(
            "sshd_losses_total", "counter", "How often sshd answered no more.", [({}, status.sshd_losses)]
        )
        results = zip(("done", "failed"), status.rotations, strict=True)
        rotations = [({"result": result}, count) for result, count in results]
        yield from _metric("key_rotations_total", "counter", "Changes of the Secret's keys, by result.", rotations)
    is_shared = status.processes is not None
    yield from _metric("process_view", "gauge", "1 where the pod shares its process namespace.", [({}, is_shared)])
    if status.processes is not None:
        yield from _process_lines(status, status.processes)


def _process_lines(status: Status, processes: Collection[Process]) -> Iterator[str]:
    states = Counter(process.state for process in processes)
    counts = [({"state": state}, count) for state, count in sorted(states.items())]
    yield from _metric("processes", "gauge", "Processes of the pod, by state.", counts)
    shown = sorted(processes, key=lambda process: (process.rank is None, -process.rss_bytes, process.pid))[
        :PROCESSES_MAX
    ]
    omitted = len(processes) - len(shown)
    yield from _metric("processes_omitted", "gauge", "Processes without series of their own.", [({}, omitted)])
    rss = [(_labels(process), process.rss_bytes) for process in shown]
    yield from _metric("process_resident_bytes", "gauge", "Resident memory of a process.", rss)
    cpu = [(_labels(process), process.cpu_s) for process in shown]
    yield from _metric("process_cpu_seconds_total", "counter", "CPU time of a process.", cpu)
    leftovers = len(status.leftovers)
    yield from _metric("leftovers", "gauge", "Processes that have outlived their launch.", [({}, leftovers)])
    yield from _metric("leftovers_ended_total", "counter", "Those that were ended.", [({}, status.leftovers_ended)])
    denied = [
        ({"what": "environment"}, sum(process.is_denied for process in processes)),
        ({"what": "signal"}, status.leftovers_denied),
    ]
    yield from _metric("denied", "gauge", "Processes of which another uid forbids something, by what.", denied)


def _metric(name: str, kind: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    yield f"# HELP mpi_worker_{name} {meaning}"
    yield f"# TYPE mpi_worker_{name} {kind}"
    for labels, value in values:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"mpi_worker_{name}{f'{{{inside}}}' if inside else ''} {float(value):.15g}"


def _labels(process: Process) -> dict[str, str]:
    rank = "" if process.rank is None else str(process.rank)
    return {"pid": str(process.pid), "name": process.name, "rank": rank}


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").encode(errors="replace").decode()
