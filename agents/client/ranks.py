"""The processes of a job's ranks as worker agents see them: read, compared over time, and grouped. Pure.

What a worker reports is untrusted: its users are root in it. All of it is bounded and made printable here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.client.facts import Facts, PodFacts
from agents.client.objects import kind_of
from agents.common.text import printable
from agents.job.json_object import Object, mapping, mappings, part

RANKS_MAX = 2048  # processes that are read of one worker
_FRAMES_MAX = 64
_SHOWN_FRAMES = 4  # of the kernel's: the outer ones are the same for all calls
_TEXT_MAX = 200  # bytes
_RANK_MAX = 10**9
_BUSY_PERCENT = 5.0  # a rank that waits in the kernel uses less
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh", "env", "timeout"})
BUSY = "uses the CPU: it computes, or polls for messages"
_UNKNOWN = "not permitted to read what it waits for (ptrace_scope)"


@dataclass(frozen=True, slots=True)
class RankProcess:
    """A process of a rank. A rank has several if its program starts others."""

    rank: int
    worker: int
    """The worker's index."""
    pod: str
    pid: int
    """In the process namespace of the pod."""
    program: str
    state: str
    """As psutil names it: running, sleeping, disk-sleep, stopped, zombie, …"""
    cpu_percent: float | None
    """Of one CPU, since the sample before; None if there is none."""
    rss_bytes: int
    call: str
    """The system call that its main thread is in; `running` in none; "" if that may not be read."""
    file: str
    """What the call is about: a path, `socket`, `pipe`; else ""."""
    function: str
    """The kernel function that it sleeps in; "" in none, or if that may not be read."""
    stack: tuple[str, ...]
    """Kernel functions, the innermost first: only a privileged agent may read them."""
    frames: tuple[str, ...] = ()
    """The Python stack of its main thread, the innermost first, where the image has py-spy."""


@dataclass(frozen=True)
class Sample:
    """One worker's ranks at one moment. `at`: seconds of that worker's own clock."""

    at: float
    ranks: tuple[RankProcess, ...]
    used: Mapping[int, tuple[float, float]]
    """By process id: when the process was started, and the CPU time that it has used."""
    denied: int
    """How many processes hide their environment, and thereby which rank they are."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that hang at the same place."""

    processes: tuple[RankProcess, ...]
    where: str
    frames: tuple[str, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, in order."""
        return tuple(sorted({one.rank for one in self.processes}))


def agent_of(pod: PodFacts) -> str:
    """Return the container of a pod's worker agent if it sees the pod's processes, else ""."""
    spec = part(pod.raw, "spec")
    if spec.get("shareProcessNamespace") is not True:
        return ""
    found = (one for one in mappings(spec.get("initContainers")) if one.get("command") == ["mpi-worker"])
    return str(next(found, {}).get("name") or "")


def why_unseen(facts: Facts) -> str:
    """Return why no worker of a job shows its processes, and what to do; "" if one does."""
    if any(map(agent_of, facts.workers.values())):
        return ""
    job = f"{kind_of(facts.resource).resource}/{facts.name}"
    command = f"kubectl -n {facts.namespace} annotate {job} mpi-agents/worker-agent=processes"
    return (
        f"{facts.name}'s workers don't show their processes: set spec.workerAgent: {{processes: true}} (`{command}`; "
        f"jobs of mpi-agents only), and `kubectl mpi rerun {facts.name}` when it has ended, as it holds for new pods"
    )


def parse(data: bytes, pod: PodFacts) -> Sample:
    """Read what a worker agent has printed. Raises ValueError."""
    try:
        report = mapping(json.loads(data))
    except (ValueError, RecursionError):
        raise ValueError("its worker agent's answer is not the JSON of this version") from None
    ranks, used = [], {}
    listed = [one for one in mappings(report.get("ranks"))[:RANKS_MAX] if 0 <= _number(one, "rank", -1) < _RANK_MAX]
    parents = {(_number(one, "ppid"), _number(one, "rank")) for one in listed}
    for one in listed:
        pid, rank, program = int(_number(one, "pid")), int(_number(one, "rank")), _text(one, "name")
        if program in _SHELLS and (pid, rank) in parents:  # it waits for the program that it has started
            continue
        used[pid] = _number(one, "started"), _number(one, "cpu_s")
        ranks.append(
            RankProcess(
                rank=rank,
                worker=pod.index or 0,
                pod=pod.name,
                pid=pid,
                program=program,
                state=_text(one, "state"),
                cpu_percent=None,
                rss_bytes=int(_number(one, "rss_bytes")),
                call=_text(one, "call"),
                file=_text(one, "file"),
                function=_text(one, "function"),
                stack=_texts(one.get("stack")),
            )
        )
    return Sample(_number(report, "at"), tuple(ranks), used, int(_number(report, "environment_denied")))


def compared(before: Sample | None, now: Sample) -> tuple[RankProcess, ...]:
    """Return a sample's ranks with the CPU that they used since the sample before."""
    seconds = 0.0 if before is None else now.at - before.at
    if before is None or seconds <= 0:
        return now.ranks
    found = []
    for one in now.ranks:
        (was_started, was_used), (started, used) = before.used.get(one.pid, (None, 0.0)), now.used[one.pid]
        percent = round(max(0.0, 100 * (used - was_used) / seconds), 1) if was_started == started else None
        found.append(replace(one, cpu_percent=percent))
    return tuple(found)


def python_stacks(output: bytes) -> dict[int, tuple[str, ...]]:
    """Read what `py-spy dump --json` printed of several processes: the main threads' stacks, by process id."""
    found: dict[int, tuple[str, ...]] = {}
    for threads in _documents(output.decode("utf-8", "replace")):
        for thread in threads:
            pid = int(_number(thread, "pid"))
            if pid not in found or thread.get("os_thread_id") == pid:
                frames = mappings(thread.get("frames"))[:_FRAMES_MAX]
                found[pid] = tuple(map(_frame, frames))
    return found


def groups(ranks: Sequence[RankProcess]) -> list[Group]:
    """Put ranks together that are at the same place; the largest group first."""
    found: dict[tuple[str, tuple[str, ...]], list[RankProcess]] = defaultdict(list)
    for one in ranks:
        found[where(one), one.frames].append(one)
    made = [Group(tuple(members), place, frames) for (place, frames), members in found.items()]
    return sorted(made, key=lambda group: (-len(group.ranks), group.ranks))


def where(one: RankProcess) -> str:
    """Say what a rank's process is doing: `read of pipe (kernel: pipe_read)`."""
    if one.state in {"stopped", "tracing-stop", "zombie"}:
        return STATES[one.state]
    if one.state == "running" or one.call == "running" or (one.cpu_percent or 0.0) >= _BUSY_PERCENT:
        return BUSY  # which call a busy process is in is chance, and would part ranks that do the same
    kernel = " ← ".join(one.stack[:_SHOWN_FRAMES]) or one.function
    what = f"{one.call} of {one.file}" if one.file else one.call
    if not what:
        return f"{STATES.get(one.state, one.state)}; {f'kernel: {kernel}' if kernel else _UNKNOWN}"
    return what + (f" (kernel: {kernel})" if kernel else "")


STATES = {
    "running": "R running",
    "sleeping": "S waiting",
    "disk-sleep": "D waiting for a disk, a network file system or a device",
    "stopped": "T stopped by a signal",
    "tracing-stop": "t stopped by a debugger",
    "zombie": "Z ended, its parent has not noticed",
    "idle": "I idle",
    "dead": "X ended",
}
"""psutil's words as ps writes them, explained."""


def ranges(numbers: Collection[int]) -> str:
    """Return sorted numbers as `0-2, 5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _documents(text: str) -> Iterator[Sequence[Object]]:
    """Give the lists of objects that follow each other in a text, up to the first invalid part."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("[", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield mappings(value)


def _frame(frame: Object) -> str:
    file = _text(frame, "short_filename") or _text(frame, "filename")
    return f"{_text(frame, 'name')} ({file}:{int(_number(frame, 'line'))})"


def _number(found: Object, name: str, otherwise: float = 0.0) -> float:
    value = found.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63:  # nor a NaN
        return value
    return otherwise


def _text(found: Object, name: str) -> str:
    value = found.get(name)
    return printable(value, _TEXT_MAX) if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    listed = value[:_FRAMES_MAX] if isinstance(value, list) else []
    return tuple(printable(one, _TEXT_MAX) for one in listed if isinstance(one, str))
