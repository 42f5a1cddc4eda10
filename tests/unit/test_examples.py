"""The examples are one job, written five times: what differs is what their launchers differ in."""

from __future__ import annotations

import difflib
import os
import re

import pytest

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "exec")
NAMES = sorted(name.removesuffix(".yaml") for name in os.listdir(FOLDER))
FIRST = "openmpi4"
OWN = (
    re.compile(r"\A.*:", re.MULTILINE),  # the title's name of the MPI
    re.compile(r"^    \S+-worker-\d.*\n", re.MULTILINE),  # the hostfile
    re.compile(r"^    command: \[(mpirun|mpiexec|horovodrun),(.*\n)*?(?=    securityContext:)", re.MULTILINE),
    # The last of a worker: only Open MPI's daemon wants to see the agent there.
    re.compile(r"^        volumeMounts:\n.*/etc/mpi.*\n      volumes:\n(.*\n)*\Z", re.MULTILINE),
)


def common(name: str) -> list[str]:
    """An example's lines but for what is its launcher's own, with the first one's names."""
    with open(os.path.join(FOLDER, f"{name}.yaml"), encoding="utf-8") as file:
        text = file.read()
    for part in OWN:
        text = part.sub("", text)
    text = re.sub(r"\b(mpiexec|horovodrun)\b", "mpirun", text)
    return re.sub(r"\btrain\b", "pi", text).replace(name, FIRST).splitlines()


def test_there_is_one_for_each_launcher() -> None:
    assert NAMES == ["horovod", "intel", "mpich", "openmpi4", "openmpi5"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != FIRST])
def test_examples_differ_by_their_launchers_alone(name: str) -> None:
    assert [*difflib.unified_diff(common(FIRST), common(name), FIRST, name, lineterm="", n=0)] == []


def test_little_is_left_out_of_that() -> None:
    assert len(common(FIRST)) > 150
