"""docs/kubectl-mpi.md has the commands, options and exit codes that there are."""

from __future__ import annotations

import os
import re

import click
import pytest

from agents.client import MpiClient
from agents.kubectl_mpi import options
from agents.kubectl_mpi.cli import command

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "kubectl-mpi.md")
with open(PAGE, encoding="utf-8") as file:
    TEXT = file.read()
ROWS = dict(re.findall(r"^\| `kubectl mpi (\w+)[^|]* \| (.*) \|$", TEXT, re.MULTILINE))
COMMON = {"-n", "--namespace", "--context", "--kubeconfig", "-o", "--output", "--ignore-not-found", "-h", "--help"}


def flags(one: click.Command) -> set[str]:
    if isinstance(one, click.Group):
        return set().union(*map(flags, one.commands.values()))
    return {flag for parameter in one.params if isinstance(parameter, click.Option) for flag in parameter.opts}


def section(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert set(ROWS) == set(command.commands)


@pytest.mark.parametrize("name", command.commands)
def test_options_are_named_and_there(name: str) -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith(f"| `kubectl mpi {name}"))
    told = line + (section("Run") if name == "run" else "")
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", told.replace("pods/exec", "")))
    known = flags(command.commands[name])
    assert named <= known
    options_ = [one for one in command.commands[name].params if isinstance(one, click.Option)]
    assert [one.name for one in options_ if not (COMMON | named) & {*one.opts}] == []


@pytest.mark.parametrize("name", sorted({*command.commands} - {"convert", "local"}))
def test_commands_share_options(name: str) -> None:
    assert {"--namespace", "--context", "--kubeconfig"} <= flags(command.commands[name])


def test_exit_codes() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)}
    names = ("FAILED", "USAGE", "NO_ACCESS", "NOT_FOUND", "FORBIDDEN", "TIMEOUT", "INTERRUPTED")
    assert told == {0, *(getattr(options, name) for name in names)}
    documented = " ".join((options.__doc__ or "").partition("Exit codes:")[2].split())
    assert {int(code) for code in re.findall(r"(?:^|; )(\d+) ", f"; {documented}")} == told


def test_methods_of_the_client_are_there() -> None:
    line = re.search(r"`MpiClient` has (.*?)\.", TEXT, re.DOTALL)
    assert line is not None
    named = set(re.findall(r"`(\w+)`", line[1]))
    assert len(named) == 15
    assert [name for name in named if not callable(getattr(MpiClient, name, None))] == []
