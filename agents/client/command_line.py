"""How many ranks a launcher's command line asks for, and on which host each runs. Pure.

Open MPI, MPICH, Intel MPI and horovodrun fill the slots of one host after the other, in the hostfile's order. Where an
option may change that, or one is not known here, no place is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.client import shell
from agents.job.json_object import mappings
from agents.job.model import Job
from agents.job.t9k_launcher import HOSTFILE
from agents.job.template import main_container

LAUNCHERS = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun", "horovodrun"})
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_SCRIPT_MAX = 16384  # characters
_RANKS = frozenset({"n", "np", "c", "num-proc"})
_PER_HOST = frozenset({"N", "npernode"})
# Options by how many values follow. Open MPI 4.1 orterun.c, 5.0 schizo_ompi.c; MPICH and Intel MPI: mpiexec.hydra.
_PAIRS = frozenset({"mca", "omca", "gmca", "pmca", "prtemca", "pmixmca", "gpmixmca", "env", "genv"})
_NO_PLACE = re.compile(  # with a value each, which has no influence on where ranks run
    "x|bind-to|wdir|wd|prefix|path|timeout|report-uri|report-pid|stdin|output|output-filename|iface|launcher"
    "|launcher-exec|bootstrap|bootstrap-exec|envlist|genvlist|display|network-interface|start-timeout|p|ssh-port"
    "|prepend-pattern|max-restarts|personality|launch-agent|outfile-pattern|errfile-pattern"
)
_PLACE = re.compile(
    "H|hosts?|f|hostfile|machinefile|default-hostfile|map-by|rank-by|ppn|perhost|rf|rankfile|npersocket|tune|am"
    "|cpus-per-proc|cpus-per-rank|cpu-set|cpu-list"
)
_FLAGS = re.compile(
    "allow-run-as-root|oversubscribe|tag-output|timestamp-output|quiet|q|v|verbose|report-bindings|display-map"
    "|display-allocation|gloo|mpi|l|prepend-rank|genvall|envall|genvnone|bind-to-(core|socket|none)|enable-recovery"
    "|continuous|forward-signals|merge-stderr-to-stdout|get-stack-traces|xml|use-hwthread-cpus"
)
_PLACE_FLAGS = re.compile("nooversubscribe|nolocal|pernode|by(node|slot|core|socket)")
_DEFAULTS = frozenset({HOSTFILE, "slot"})  # of options of _PLACE: values that change nothing
_MAPPING_VARIABLES = ("OMPI_MCA_rmaps_", "PRTE_MCA_rmaps_", "I_MPI_PERHOST", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line asks for: `total` ranks, or `per_host` on each host. `in_order`: fills host by host."""

    total: int | None = None
    per_host: int | None = None
    in_order: bool = True


@dataclass(frozen=True, slots=True)
class Line:
    """What follows a launcher: options, each with its values, and the program. `is_known`: so are all options."""

    options: tuple[tuple[str, ...], ...]
    program: tuple[str, ...]
    is_known: bool


def line_of(words: Sequence[str]) -> Line:
    """Read the words after a launcher."""
    options, at, is_known = list[tuple[str, ...]](), 0, True
    while at < len(words) and words[at].startswith("-"):
        count = 0 if "=" in words[at] else _values_of(name_of(words[at]))
        is_known &= count is not None and at + count < len(words)
        after = at + (count or 0) + 1
        options.append(tuple(words[at:after]))
        at = after
    return Line(tuple(options), tuple(words[at:]), is_known)


def name_of(option: str) -> str:
    """Return an option's name: Open MPI takes one dash for two."""
    return option.lstrip("-").partition("=")[0]


def _values_of(option: str) -> int | None:
    """Return how many words follow an option, which is given without dashes; None if it is not known."""
    if option in _PAIRS:
        return 2
    if option in _RANKS | _PER_HOST or _PLACE.fullmatch(option) or _NO_PLACE.fullmatch(option):
        return 1
    return 0 if _FLAGS.fullmatch(option) or _PLACE_FLAGS.fullmatch(option) else None


def ranks_of(job: Job) -> int | None:
    """Return how many ranks a job's launcher starts; None if its command line does not say so."""
    asked = _of_job(job)
    return asked.per_host * _hosts(job) if asked.total is None and asked.per_host is not None else asked.total


def places(job: Job) -> list[range] | None:
    """Return the ranks of each host in the hostfile's order; None if that is not certain."""
    asked, slots = _of_job(job), job.slots
    if asked.total is None or not asked.in_order or asked.total > slots * _hosts(job):
        return None
    environ = mappings(main_container(job.launcher.template, job.main_container).get("env"))
    if any(str(one.get("name")).startswith(_MAPPING_VARIABLES) for one in environ):
        return None
    return [range(first, min(first + slots, asked.total)) for first in range(0, slots * _hosts(job), slots)]


def asked_by(words: Sequence[str]) -> Asked:
    """Return what a container's command asks for: a launcher's command line, or a shell's with a script of them."""
    lines = [*_commands(words)]
    found = {_read(line[at + 1 :]) for line in lines for at in _launchers(line)}
    counted = {one for one in found if one.total is not None or one.per_host is not None}
    return counted.pop() if len(counted) == 1 else Asked(in_order=False)


def _hosts(job: Job) -> int:
    return job.worker.replicas + job.launcher_is_worker


def _of_job(job: Job) -> Asked:
    container = main_container(job.launcher.template, job.main_container)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return asked_by([str(word) for word in words])


def _launchers(words: Sequence[str]) -> list[int]:
    """Return where the launcher is in a command: also after `exec`, `timeout 60` or variables."""
    return [at for at, word in enumerate(words) if os.path.basename(word) in LAUNCHERS][:1]


def _commands(words: Sequence[str]) -> Iterator[list[str]]:
    """Return the simple commands of a shell's script, or the words as they are."""
    script = None
    if words and os.path.basename(words[0]) in _SHELLS:
        options = (
            at for at, word in enumerate(words) if word[:1] == "-" != word[1:2] and "c" in word and at + 1 < len(words)
        )
        script = next((words[at + 1] for at in options), None)
    if script is None:
        yield [*words]
        return
    for command in shell.commands(script[:_SCRIPT_MAX]):
        yield [word.text for word in command.words]


def _read(words: Sequence[str]) -> Asked:
    """Read the words after a launcher. Parts of an MPMD line are separated by `:`."""
    parts: list[list[str]] = [[]]
    for word in words:
        parts += [[]] if word == ":" else []
        parts[-1] += [word] if word != ":" else []
    found = [_part(part) for part in parts]
    if len(found) == 1:
        return found[0]
    totals = [one.total for one in found if one.total is not None]
    return Asked(sum(totals) if len(totals) == len(found) else None, None, in_order=False)


def _part(words: Sequence[str]) -> Asked:
    total = per_host = None
    line = line_of(words)
    in_order = line.is_known
    for option, *values in line.options:
        name, value = name_of(option), option.partition("=")[2] or "".join(values[:1])
        total = _count(value) if name in _RANKS else total
        per_host = _count(value) if name in _PER_HOST else per_host
        if name in _PAIRS:
            in_order &= not value.startswith("rmaps")
        elif name in _PER_HOST or _PLACE.fullmatch(name):
            in_order &= value in _DEFAULTS
        elif name not in _RANKS:  # by `=`, an option that is not known has its value
            in_order &= (_NO_PLACE.fullmatch(name) or _FLAGS.fullmatch(name)) is not None
    return Asked(total, per_host, in_order)


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
