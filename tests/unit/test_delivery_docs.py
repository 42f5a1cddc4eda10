"""docs/delivery.md tells every exit code and setting there is."""

from __future__ import annotations

import os
import re

import pytest

from delivery import exits
from delivery.cli import command

_HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def text() -> str:
    with open(os.path.join(_HERE, "..", "..", "docs", "delivery.md"), encoding="utf-8") as file:
        return file.read()


def test_every_exit_code_is_told_and_no_other(text: str) -> None:
    table = text.partition("## Exit codes")[2].partition("\n## ")[0]
    told = {int(code) for codes in re.findall(r"^\| ([0-9, ]+) \|", table, re.MULTILINE) for code in codes.split(",")}
    known = {value for name, value in vars(exits).items() if name.isupper()}
    assert told == known | {130, 143}


def test_every_option_is_told(text: str) -> None:
    options = {name for option in command.params for name in option.opts if name.startswith("--")}
    assert {name for name in options if f"`{name}`" not in text} == {"--master", "--version"}


def test_every_variable_is_told(text: str) -> None:
    with open(os.path.join(_HERE, "..", "..", "delivery", "settings.py"), encoding="utf-8") as file:
        variables = set(re.findall(r'"((?:MPI_AGENT_)?[A-Z_]{6,})"', file.read()))
    assert {"MPI_AGENT_HOSTFILE", "TARGET_DIR", "NAMESPACE", "KUBECONFIG"} <= variables
    assert {name for name in variables if f"`{name}`" not in text} == set()
