"""What a batch script asks Slurm for, as the size of a job; and what of it has no meaning here. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.client.convert.slurm.options import Option, count, devices, elements, mebibytes, seconds

ELEMENTS_MAX = 1000  # jobs of an array: Slurm's own MaxArraySize is 1001 by default

_HINTS = {  # by option: what to do instead
    **dict.fromkeys(("account", "qos", "priority", "nice", "wckey"), "set a priorityClassName, or a queue of Kueue's"),
    **dict.fromkeys(("output", "error", "open-mode"), "`kubectl mpi logs` has the output"),
    **dict.fromkeys(("mail-type", "mail-user"), "`kubectl mpi wait` ends when the job does"),
    **dict.fromkeys(("constraint", "prefer"), "set a nodeSelector in both templates"),
    **dict.fromkeys(("nodelist", "exclude", "switches", "reservation"), "set an affinity in both templates"),
    **dict.fromkeys(("exclusive", "overcommit", "oversubscribe"), "a worker shares its node; ask for a node's CPUs"),
    **dict.fromkeys(("dependency", "begin", "deadline"), "use a workflow engine, or `kubectl mpi wait`"),
    **dict.fromkeys(("distribution", "hint", "ntasks-per-core", "ntasks-per-socket"), "use mpirun's --map-by"),
    **dict.fromkeys(("threads-per-core", "cores-per-socket", "sockets-per-node"), "pods ask for CPUs only"),
    "signal": "the script's shell gets SIGTERM when its pod is deleted",
    "requeue": "pods that are lost are replaced anyway",
    "tmp": "ask for ephemeral-storage, or mount a volume",
    "licenses": "nothing counts them",
    "export-file": "use --export, or env in both templates",
}
_ALREADY = frozenset({"no-requeue", "verbose", "quiet", "parsable", "wait", "ignore-pbs"})  # so here, or of sbatch


@dataclass(slots=True)
class Request:
    """A job's size and limits. `cpu`, `gpus` and `memory` (MiB) are a worker's. None and "": nothing was said."""

    name: str = ""
    nodes: int = 0
    ntasks: int = 0
    per_node: int | None = None
    cpus_per_task: int | None = None
    cpu: int | None = None
    memory: int | None = None
    time_s: int | None = None
    gpus: int | None = None
    partition: str = ""
    folder: str = ""
    is_held: bool = False
    env: dict[str, str] = field(default_factory=dict)
    array: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """Ranks in a worker."""
        return -(-self.ntasks // self.nodes)


def request(options: Iterable[tuple[int, Option]]) -> Request:
    """Return what options ask for, each with the number of its line; a later one wins."""
    found, values = Request(), dict[str, Any]()
    for line, option in options:
        try:
            if reader := _READERS.get(option.name):
                values[option.name] = reader(option.value)
            elif option.name not in _ALREADY:
                hint = _HINTS.get(option.name, "has no meaning here") if option.is_known else "is no option of sbatch"
                found.lost.append(f"line {line}: {option}: {hint}")
                values[option.name] = option.value
        except ValueError as error:
            found.problems.append(f"line {line}: {option}: {error}")
    _count(found, values)
    _per_worker(found, values)
    _others(found, values)
    return found


def _gres(value: str) -> tuple[int, str]:
    """Return the GPUs of a list of generic resources. Raises ValueError if it has others."""
    found = (0, "")
    for one in value.split(","):
        name, _, many = one.partition(":")
        if name not in ("gpu", "gres/gpu"):
            raise ValueError("only gpu is known here: ask for another device in the workers' resources")
        found = devices(many or "1")
    return found


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "ntasks-per-gpu"), count),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), mebibytes),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), devices),
    **dict.fromkeys(("job-name", "partition", "chdir", "export", "hold"), str),
    "gres": _gres,
    "time": seconds,
    "array": lambda value: (value, elements(value, ELEMENTS_MAX)),
}


def _count(found: Request, values: dict[str, Any]) -> None:
    """Count nodes and tasks: as Slurm does, one task per node if nothing else is said."""
    found.per_node, found.cpus_per_task = values.get("ntasks-per-node"), values.get("cpus-per-task")
    nodes, ntasks = values.get("nodes"), values.get("ntasks")
    gpus, _ = values.get("gpus", (0, ""))
    if ntasks is None and (each := values.get("ntasks-per-gpu")):
        ntasks = each * max(gpus, 1)
    if nodes is None:
        nodes = -(-(ntasks or 1) // found.per_node) if found.per_node else 1
        if (ntasks or 1) > 1 and not found.per_node:
            found.lost.append(f"{ntasks} tasks without --nodes, which Slurm places as it likes: one worker has all")
    found.nodes = nodes
    found.ntasks = ntasks or nodes * (found.per_node or 1)
    if found.ntasks < found.nodes:
        found.lost.append(f"{found.nodes} nodes for {found.ntasks} tasks: {found.ntasks} workers")
        found.nodes = found.ntasks


def _per_worker(found: Request, values: dict[str, Any]) -> None:
    """Count what a worker needs."""
    total, total_type = values.get("gpus", (0, ""))
    each, each_type = values.get("gpus-per-task", (0, ""))
    on_node, kind = values.get("gpus-per-node") or values.get("gres") or (0, "")
    found.gpus = on_node or each * found.slots or -(-total // found.nodes) or None
    if kind := kind or total_type or each_type:
        found.lost.append(f"the GPU type {kind}: set a nodeSelector in both templates")
    has_node = "exclusive" in values and found.cpus_per_task is None
    found.cpu = None if has_node else found.slots * (found.cpus_per_task or 1)
    memory = values.get("mem") or values.get("mem-per-cpu", 0) * found.slots * (found.cpus_per_task or 1)
    found.memory = memory or values.get("mem-per-gpu", 0) * (found.gpus or 0) or None
    if values.get("mem") == 0:
        found.lost.append("--mem=0, all memory of a node: pods ask for an amount")


def _others(found: Request, values: dict[str, Any]) -> None:
    found.name, found.folder = values.get("job-name", ""), values.get("chdir", "")
    found.time_s, found.is_held = values.get("time"), "hold" in values
    if partition := values.get("partition", "").partition(",")[0]:
        found.partition = re.sub(r"[^a-z0-9]+", "-", partition.lower()).strip("-")[:63]
        found.lost.append(f"the partition {partition}: Kueue's LocalQueue {found.partition} instead, if there is Kueue")
    given, found.array = values.get("array", ("", []))
    if "%" in given:
        found.lost.append(f"the limit {given[given.index('%') :]} of the array: all its jobs are created together")
    for one in values.get("export", "").split(","):
        name, equals, value = one.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            found.env[name] = value
        elif name not in ("", "ALL", "NONE", "NIL"):
            found.lost.append(f"--export of {name}: its value is not in the script; set env in both templates")
