"""Job steps: srun lines as mpirun's, and mpirun's as they have to be outside of Slurm. Pure.

Under Slurm ranks get the environment of the script. Open MPI's mpirun gives them what `-x` names, so what the script
exports is named; Hydra (MPICH, Intel MPI) gives them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.client.command_line import name_of
from agents.client.convert import mpirun
from agents.client.convert.slurm.options import SRUN, count, parse
from agents.client.convert.slurm.request import Request
from agents.client.shell import Command, commands, replaced
from agents.job.model import Implementation

_BINDINGS = {  # of --cpu-bind: Open MPI's --bind-to
    "none": "none",
    "no": "none",
    "cores": "core",
    "core": "core",
    "threads": "hwthread",
    "sockets": "socket",
    "ldoms": "numa",
}
_SLURM = frozenset(
    {"scontrol", "sbatch", "scancel", "sacct", "squeue", "sbcast", "sinfo", "sstat", "salloc", "sattach"}
)
_COUNTS = frozenset({"n", "np", "c", "N", "npernode", "ppn", "perhost", "map-by"})
_HOSTS = frozenset({"hostfile", "machinefile", "H", "host", "hosts", "f"})
_HERE = {  # of srun: what is said of an option that has no meaning
    **dict.fromkeys(("output", "error", "input"), "use the shell's > and <"),
    "mpi": "mpirun starts ranks by itself",
    "multi-prog": "the line is as it was: write an mpirun line with : between the programs",
    "pty": "the line is as it was: use `kubectl mpi exec`",
}
_UNCHANGED = ("multi-prog", "pty")  # with these srun can't be mpirun
_IN_VARIABLE = re.compile(r"=[\"']?srun\b")
_PLAIN = re.compile(r"[\w./:=,@%+-]+")
_EXPORT = re.compile(r"([A-Za-z_]\w{0,127})(=.*)?", re.DOTALL)
_EXPORTS_MAX = 256  # each step names them all

Edit = tuple[int, int, str]  # of a text: its start and end, and the new text


@dataclass(slots=True)
class Steps:
    """A rewritten script, and what it loses."""

    script: str
    lost: list[str] = field(default_factory=list)
    has_modules: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    """What a step has of its job. `exported`: variables that the script has exported by then."""

    request: Request
    implementation: Implementation
    exported: list[str]

    @property
    def is_open_mpi(self) -> bool:
        return self.implementation is Implementation.OPEN_MPI


def rewritten(script: str, request: Request, implementation: Implementation, first_line: int) -> Steps:
    """Return the script with mpirun in the place of srun. `first_line`: the number of the script's first line."""
    found, job = Steps(script), _Job(request, implementation, list(request.env))
    edits: list[Edit] = []
    told: set[str] = set()
    for command in commands(script):
        lost: list[str] = []
        words = [word.text for word in command.words]
        is_step = command.program == "srun" or command.program in mpirun.PROGRAMS
        if command.program == "export":
            exported = [named[1] for word in words[1:] if (named := _EXPORT.fullmatch(word))]  # others are options
            names = dict.fromkeys([*job.exported, *exported])
            job.exported[:] = [*names][:_EXPORTS_MAX]
        elif command.program in ("module", "ml"):
            found.has_modules = True
            lost.append(f"{' '.join(words)}: the image must have it")
        elif command.program in _SLURM:
            lost.append(f"{command.program}: there is no Slurm")
        elif is_step:
            edits += (_srun if command.program == "srun" else _mpirun)(command, job, lost)
            if command.is_background:
                lost.append("parallel steps (&): each mpirun starts at the first worker")
        line = command.line + first_line - 1
        found.lost += [f"line {line}: {text}" for text in lost if text not in told]
        told.update(lost)
    if match := _IN_VARIABLE.search(script):
        line = script.count("\n", 0, match.start()) + first_line
        found.lost.append(f"line {line}: srun in a variable: is as it was; write mpirun's words")
    found.script = replaced(script, edits)
    return found


def _srun(command: Command, job: _Job, lost: list[str]) -> Iterable[Edit]:
    words = [word.text for word in command.words]
    options, program = parse(words[1:], SRUN)
    program += 1
    values = {option.name: option.value for option in options}
    if program >= len(words) or ":" in words[program:] or set(values) & set(_UNCHANGED):
        otherwise = "srun without a program" if program >= len(words) else f"srun with a colon: {_HERE['multi-prog']}"
        lost.append(next((f"srun --{name}: {_HERE[name]}" for name in _UNCHANGED if name in values), otherwise))
        return []
    line = ["mpirun" if job.is_open_mpi else "mpiexec", *_placed(values, job, lost)]
    if "label" in values:
        line.append("--tag-output" if job.is_open_mpi else "-l")
    if "chdir" in values:
        line += ["-wdir", values["chdir"]]
    line += _environment(values.get("export", ""), job)
    lost += [
        f"srun {option}: {_HERE.get(option.name, 'has no meaning here' if option.is_known else 'is no option of srun')}"
        for option in options
        if option.name not in _USED
    ]
    return [(command.words[0].start, command.words[program].start, f"{' '.join(map(quoted, line))} ")]


_PLACES = ("nodes", "ntasks-per-node")
_USED = {
    *("ntasks", *_PLACES, "cpus-per-task", "cpu-bind", "label", "chdir", "export"),
    *("verbose", "quiet", "unbuffered", "kill-on-bad-exit"),  # as mpirun does it
}


def _placed(values: Mapping[str, str], job: _Job, lost: list[str]) -> list[str]:
    """Return how many ranks, how many of them on a worker if it is not full, and what they are bound to.

    Ranks with several CPUs are not bound by default: Open MPI would bind each to one CPU, or to its share of a node.
    """
    request, given = job.request, values.get("ntasks", "")
    cpus = values.get("cpus-per-task") or str(request.cpus_per_task or 1)
    each, many = None, given or str(request.ntasks)
    try:
        nodes = count(values["nodes"]) if "nodes" in values else None
        each = count(values["ntasks-per-node"]) if "ntasks-per-node" in values else None
        fitting = (nodes or request.nodes) * (each or request.slots) if nodes or each else request.ntasks
        ntasks = count(given) if given else fitting
        many, each = str(ntasks), each or (-(-ntasks // nodes) if nodes else None)
        each = each if each and each < min(request.slots, ntasks) else None
    except ValueError:  # a variable
        lost += [
            f"srun --{name}={values[name]}: ranks are placed by numbers only, not variables"
            for name in _PLACES
            if name in values
        ]
    binding = _binding(values.get("cpu-bind", ""), job, lost)
    if not job.is_open_mpi:
        return ["-n", many, *(["-ppn", str(each)] if each else []), *(["-bind-to", binding] if binding else [])]
    place = f"ppr:{each}:node" if each else ""
    if cpus != "1" and binding == "core":
        place, binding = f"{place or 'slot'}:PE={cpus}", ""
    elif cpus != "1":
        binding = binding or "none"
    return ["-n", many, *(["--map-by", place] if place else []), *(["--bind-to", binding] if binding else [])]


def _binding(asked: str, job: _Job, lost: list[str]) -> str:
    """Return what srun's --cpu-bind is in mpirun's words, "" for what it has no word for."""
    words = [one for one in asked.split(",") if one not in ("", "v", "verbose", "q", "quiet")]
    known = next((_BINDINGS[one] for one in words if one in _BINDINGS), "")
    if words and (not known or job.implementation is Implementation.INTEL):
        lost.append(f"srun --cpu-bind={','.join(words)}: mpirun has other words for it")
        return ""
    return known


def _environment(export: str, job: _Job) -> list[str]:
    """Pass what the script and srun's --export name."""
    named = [one for one in export.split(",") if one not in ("", "ALL", "NONE", "NIL")]
    if job.is_open_mpi:
        return [word for one in (*job.exported, *named) for word in ("-x", one)]
    return [word for one in named if "=" in one for word in ("-genv", *one.split("=", 1))]


def _mpirun(command: Command, job: _Job, lost: list[str]) -> Iterable[Edit]:
    """Name the ranks and variables that Slurm gives to mpirun; the operator has the hostfile."""
    found = mpirun.split([word.text for word in command.words])
    if found is None:
        lost.append(f"{command.program}: has options that are not known: it is as it was, without -x and -n")
        return
    _, line = found
    index, names = 1, {name_of(option[0]) for option in line.options}
    for option in line.options:
        first, last = command.words[index], command.words[index + len(option) - 1]
        index += len(option)
        if name_of(option[0]) in _HOSTS:
            lost.append(f"{command.program} {' '.join(option)}: the operator makes the hostfile")
            yield first.start, command.words[index].start if index < len(command.words) else last.end, ""
    added: list[str] = []
    if line.program and names.isdisjoint(_COUNTS):
        added += ["-n", str(job.request.ntasks)]
    if job.is_open_mpi and line.program:
        passed = {option[1].partition("=")[0] for option in line.options if name_of(option[0]) == "x"}
        added += [word for name in job.exported if name not in passed for word in ("-x", name)]
    if added:
        yield command.words[0].end, command.words[0].end, f" {' '.join(added)}"


def quoted(word: str) -> str:
    """Return a word for the script, in which the shell replaces variables."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
