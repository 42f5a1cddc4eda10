"""docs/ssh.md tells every exit code and variable there is."""

from __future__ import annotations

import os
import re

import pytest

from sshd_bootstrap import exits, start_build

_ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(*path: str) -> str:
    with open(os.path.join(_ROOT, *path), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def text() -> str:
    return read("docs", "ssh.md")


def told(text: str, after: str, until: str) -> set[int]:
    part = text.partition(after)[2].partition(until)[0]
    return {int(code) for code in re.findall(r"^\| (\d+) \|", part, re.MULTILINE)}


def test_every_exit_code_of_the_preparation_is_told_and_no_other(text: str) -> None:
    known = {value for name, value in vars(exits).items() if re.fullmatch(r"[A-Z]\w+", name) and isinstance(value, int)}
    assert told(text, "Before the user's container,", "In a worker's own container,") == known - {exits.PREPARED}


def test_every_exit_code_of_the_start_is_told_and_no_other(text: str) -> None:
    header = read("sshd_bootstrap", "start_common.h")
    known = {
        int(code)
        for line in re.findall(r"^enum \{(.*)\};$", header, re.MULTILINE)[:2]
        for code in re.findall(r"\d+", line)
    }
    assert {40, 127} <= known
    assert told(text, "In a worker's own container,", "In a launcher's own container") == known - {exits.USAGE}


def test_every_variable_is_told(text: str) -> None:
    variables = set(
        re.findall(r'"(MPI_\w+)"', read("sshd_bootstrap", "settings.py") + read("agents", "common", "termination.py"))
    )
    assert {"MPI_SSH_PORTS", "MPI_AGENT_TERMINATION_LOG"} <= variables
    assert {name for name in variables if f"| `{name}` |" not in text} == set()


def test_every_file_is_compiled() -> None:
    sources = {name for name in os.listdir(os.path.join(_ROOT, "sshd_bootstrap")) if name.endswith(".c")}
    assert {os.path.basename(source) for source in start_build.SOURCES} == sources
