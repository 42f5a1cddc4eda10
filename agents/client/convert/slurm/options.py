"""Slurm's options of sbatch and srun, and the values that they have. Pure.

Source: the manual pages sbatch(1) and srun(1) of Slurm 24.05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# A name, `=` for a value, `?` for one that may be there, `:` for none, and the option of one letter.
_COMMON = """
account=A acctg-freq= bb= bbf= begin=b chdir=D clusters=M cluster-constraint= comment= constraint=C container=
container-id= contiguous: core-spec=S cores-per-socket= cpu-freq= cpus-per-gpu= cpus-per-task=c deadline= delay-boot=
dependency=d distribution=m error=e exclude=x exclusive? export= extra= extra-node-info=B gid= gpu-bind= gpu-freq=
gpus=G gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= hint= hold:H input=i job-name=J licenses=L
mail-type= mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= network= nice? no-kill?k nodefile=F
nodelist=w nodes=N ntasks=n ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= open-mode= output=o
overcommit:O oversubscribe:s partition=p power= prefer= priority= profile= propagate? qos=q quiet:Q reboot: reservation=
segment= signal= sockets-per-node= spread-job: stepmgr: switches= tasks-per-node= thread-spec= threads-per-core= time=t
time-min= tmp= tres-bind= tres-per-task= uid= use-min-nodes: verbose:v wait-all-nodes= wckey=
"""
_SBATCH = """
array=a batch= export-file= get-user-env? ignore-pbs: kill-on-invalid-dep= no-requeue: parsable: requeue: test-only:
wait:W wrap=
"""
_SRUN = """
accel-bind= bcast? compress? cpu-bind= disable-status:X epilog= exact: het-group= immediate?I interactive: jobid=
kill-on-bad-exit?K label:l mpi= msg-timeout= multi-prog: no-allocate:Z overlap: preserve-env:E prolog= pty?
quit-on-interrupt: relative=r resv-ports? send-libs? slurmd-debug= task-epilog= task-prolog= threads=T unbuffered:u
wait=W
"""


def _table(text: str) -> tuple[dict[str, str], dict[str, str]]:
    found = re.findall(r"([a-z-]+)([=?:])(\w?)", text)
    return {name: kind for name, kind, _ in found}, {letter: name for name, _, letter in found if letter}


SBATCH, SRUN = _table(_COMMON + _SBATCH), _table(_COMMON + _SRUN)
_ALIASES = {"tasks-per-node": "ntasks-per-node", "nodefile": "nodelist"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option by its long name. `is_known`: Slurm has it."""

    name: str
    value: str = ""
    is_known: bool = True

    def __str__(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def parse(words: Sequence[str], table: tuple[Mapping[str, str], Mapping[str, str]]) -> tuple[list[Option], int]:
    """Return the options that words start with, as getopt_long reads them, and the index of the next word."""
    kinds, letters = table
    found: list[Option] = []
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "-":
        word = words[index]
        index += 1
        if word == "--":
            break
        following = words[index] if index < len(words) else ""
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = _whole(given, kinds)
            if kinds.get(name) == "=" and not equals:
                value, index = following, index + 1
            found.append(Option(_ALIASES.get(name, name), value, name in kinds))
            continue
        group = word[1:]
        while group:
            letter, group = group[0], group[1:]
            name = letters.get(letter, letter)
            value, kind = "", kinds.get(name, ":")
            if kind in "=?":
                value, group = group.removeprefix("="), ""
                if kind == "=" and not value:
                    value, index = following, index + 1
            found.append(Option(_ALIASES.get(name, name), value, name in kinds))
    return found, min(index, len(words))


def _whole(given: str, kinds: Mapping[str, str]) -> str:
    """Return the name that this is the beginning of, if there is one only."""
    if given in kinds:
        return given
    matching = [name for name in kinds if given and name.startswith(given)]
    return matching[0] if len(matching) == 1 else given


def count(text: str) -> int:
    """Return a number of 1 or more; of a range (`2-4`) its least. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,6})(?:-\d{1,6})?", text, re.ASCII)
    if found is None or not int(found[1]):
        raise ValueError("must be a number of 1 or more")
    return int(found[1])


def seconds(text: str) -> int | None:
    """Return a time limit: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS; None is none. Raises ValueError."""
    if text.upper() in ("UNLIMITED", "INFINITE", "0"):
        return None
    found = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text, re.ASCII)
    if found is None:
        raise ValueError("must be a time such as 90, 10:00, 4:00:00 or 1-12")
    days, *rest = found.groups()
    parts = [int(one) for one in rest if one]
    if days is not None or len(parts) == 3:
        hours, minutes, secs = [*parts, 0, 0][:3]
    else:
        hours, (minutes, secs) = 0, [*parts, 0][:2]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + secs


def mebibytes(text: str) -> int:
    """Return an amount of memory: in MiB, or with K, M, G or T. 0 is all of a node's. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text.upper(), re.ASCII)
    if found is None:
        raise ValueError("must be an amount such as 4000, 16G or 1T")
    amount = int(found[1])
    return -(-amount // 1024) if found[2] == "K" else amount * {"": 1, "M": 1, "G": 1024, "T": 1 << 20}[found[2]]


def devices(text: str) -> tuple[int, str]:
    """Return how many GPUs `4`, `a100:4` or `a100` are, and their type. Raises ValueError."""
    found = re.fullmatch(r"(?:([A-Za-z][\w.-]*)(?::(?=\d)|$))?(\d{0,4})", text, re.ASCII)
    if found is None or not text:
        raise ValueError("must be a number of GPUs, such as 4 or a100:4")
    return int(found[2] or 1), found[1] or ""


def elements(text: str, most: int) -> list[int]:
    """Return the indexes of an array: `0-15`, `1,3,5-7`, `0-15:4`, maybe with `%` and a limit. Raises ValueError."""
    found: list[int] = []
    for one in text.partition("%")[0].split(","):
        parts = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", one.strip(), re.ASCII)
        if parts is None or parts[3] == "0":
            raise ValueError("must be indexes such as 0-15, 1,3,5 or 0-15:4")
        first = int(parts[1])
        some = range(first, int(parts[2] or first) + 1, int(parts[3] or 1))
        if len(some) + len(found) > most:
            raise ValueError(f"must have at most {most} elements here")
        found += some
    return found
