"""The paper's experiments: the programs, and what is read in what they print. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.measure import BenchmarkError
from tests.cluster.images import BENCH_MEM, NPB

from .ways import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_OWN, _MESSAGE = "its own time", "a message of 1 MB"
INPUT = "/dev/shm/benchMEM.tpr"  # in memory that a node's containers share


class Read(NamedTuple):
    """Seconds by what they were spent for, and text that must be the same in all runs of all ways."""

    seconds: Mapping[str, float]
    same: str = ""


class Experiment(NamedTuple):
    """One program, run in turn by all ways. `goal`: the sibling container's ratio to plain."""

    name: str
    command: str
    read: Callable[[str], Read]
    runs: int
    held: str  # what the goal is about
    goal: float
    with_launch: bool = False  # the wall time of the whole command is a figure too, without a goal


class Application(NamedTuple):
    """An application's image, how it is laid out, and the experiments with it."""

    image: str
    layout: Layout
    experiments: tuple[Experiment, ...]
    needs: Path | None = None  # a file that the user provides


def _init_finalize(text: str) -> Read:
    told = {name: float(value) for name, value in re.findall(r"\b(\w+)_s=([\d.]+)", text)}
    if told.keys() != {"init", "barrier", "finalize"}:
        raise BenchmarkError(f"init_finalize said {text!r}")
    return Read({"I+F": told["init"] + told["finalize"]})


def _pingpong(text: str) -> Read:
    rate = re.search(r"rank 0 and rank 1: ([\d.]+) MB/s", text)
    if not rate or "all as sent" not in text:
        raise BenchmarkError(f"pingpong said {text!r}")
    return Read({_MESSAGE: 1 / float(rate[1])})


def _npb(text: str) -> Read:
    taken = re.search(r"Time in seconds = +([\d.]+)", text)
    if not taken or not re.search(r"Verification += +SUCCESSFUL", text):
        raise BenchmarkError(f"a kernel has not verified its result: {text[-300:]!r}")
    return Read({_OWN: float(taken[1])})


def _gromacs(text: str) -> Read:
    taken = re.search(r"^ +Time: +[\d.]+ +([\d.]+)", text, re.MULTILINE)
    energies = re.findall(r"Energies \(kJ/mol\)\n(.+?)\n\n", text, re.DOTALL)
    if not taken or len(energies) < 2 or "Finished mdrun" not in text:
        raise BenchmarkError(f"GROMACS has not finished: {text[-300:]!r}")
    return Read({_OWN: float(taken[1])}, "\n".join(energies))


def _mdrun(steps: int) -> str:
    """The log goes to stdout: rank 0 alone has one. Its folder is its own: a podman container's is gone afterwards."""
    run = f"gmx_mpi mdrun -s {INPUT} -nsteps {steps} -ntomp 1 -reprod -noconfout"
    return f"sh -c {shlex.quote(f'cd $(mktemp -d) && {run} && if [ -e md.log ]; then cat md.log; fi')}"


_CORES = Layout(2, 1)  # what computes all the time has a core for each rank
APPLICATIONS = {
    "init": Application(
        "mpi",
        Layout(5, 2),
        (Experiment("init_finalize, 5 nodes x 2", "init_finalize", _init_finalize, 15, "I+F", 1.05, with_launch=True),),
    ),
    "shm": Application(
        "mpi",
        Layout(1, 2),
        (Experiment("pingpong, 1 node x 2", "pingpong 1000000 500", _pingpong, 9, _MESSAGE, 1.05),),
    ),
    "npb": Application(
        "npb",
        _CORES,
        tuple(
            Experiment(f"NPB {kernel}.A, 2 nodes x 1", f"{kernel}.A.x", _npb, 5, _OWN, 1.02) for kernel in ("ep", "cg")
        ),
        NPB,
    ),
    "gromacs": Application(
        "gromacs",
        _CORES,
        (Experiment("GROMACS benchMEM, 1,000 steps, 2 nodes x 1", _mdrun(1000), _gromacs, 1, _OWN, 1.02),),
        BENCH_MEM,
    ),
}
