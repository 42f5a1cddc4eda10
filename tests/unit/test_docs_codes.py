"""Pages list the exit codes, settings and options of delivery, ssh, the worker agent and kubectl mpi as they are."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click
import pytest
from test_docs import content
from test_docs_tables import section

from agents.client import MpiClient
from agents.kubectl_mpi import options
from agents.kubectl_mpi.cli import command as kubectl_mpi
from agents.worker import cli as worker
from delivery import exits as delivery
from delivery.cli import command as mpi_delivery
from images.catalog import ROOT
from sshd_bootstrap import exits as preparation
from sshd_bootstrap import start_build

if TYPE_CHECKING:
    from types import ModuleType


CLIENT = "docs/kubectl-mpi.md"
ROWS = dict(re.findall(r"^\| `kubectl mpi (\w+)[^|]* \| (.*) \|$", content(CLIENT), re.MULTILINE))
COMMON = {"-n", "--namespace", "--context", "--kubeconfig", "-o", "--output", "--ignore-not-found", "-h", "--help"}
NAMES = ("FAILED", "USAGE", "NO_ACCESS", "NOT_FOUND", "FORBIDDEN", "TIMEOUT", "INTERRUPTED")
KUBECTL_MPI = {0, *(int(getattr(options, name)) for name in NAMES)}


def of_module(module: ModuleType) -> set[int]:
    named = {name: value for name, value in vars(module).items() if re.fullmatch(r"[A-Z]\w+", name)}
    return {value for value in named.values() if isinstance(value, int)}


def of_the_start() -> set[int]:
    lines = re.findall(r"^enum \{(.*)\};$", content("sshd_bootstrap/start_common.h"), re.MULTILINE)[:2]
    found = {int(code) for line in lines for code in re.findall(r"\d+", line)}
    assert {40, 127} <= found
    return found - {preparation.USAGE}


def in_ssh_page(after: str, until: str) -> str:
    return content("docs/ssh.md").partition(after)[2].partition(until)[0]


EXIT_CODES = {
    "delivery": (section("docs/delivery.md", "## Exit codes"), of_module(delivery) | {130, 143}),
    "worker agent": (section("docs/worker.md", "## Exit codes"), {0, worker.USAGE, worker.CANNOT_SERVE}),
    "kubectl mpi": (section(CLIENT, "## Exit codes"), KUBECTL_MPI),
    "sshd's preparation": (
        in_ssh_page("Before the user's container,", "In a worker's own container,"),
        of_module(preparation) - {preparation.PREPARED},
    ),
    "sshd's start": (in_ssh_page("In a worker's own container,", "In a launcher's own container"), of_the_start()),
}


@pytest.mark.parametrize(("text", "known"), EXIT_CODES.values(), ids=EXIT_CODES)
def test_every_exit_code_is_told_and_no_other(text: str, known: set[int]) -> None:
    cells = re.findall(r"^\| ([0-9, ]+) \|", text, re.MULTILINE)
    assert {int(code) for cell in cells for code in cell.split(",")} == known


@pytest.mark.parametrize(
    ("page", "sources", "pattern", "some"),
    [
        (
            "docs/ssh.md",
            ["sshd_bootstrap/settings.py", "agents/common/termination.py"],
            r"MPI_\w+",
            {"MPI_SSH_PORTS", "MPI_AGENT_TERMINATION_LOG"},
        ),
        (
            "docs/delivery.md",
            ["delivery/settings.py"],
            r"(?:MPI_AGENT_)?[A-Z_]{6,}",
            {"MPI_AGENT_HOSTFILE", "TARGET_DIR", "NAMESPACE", "KUBECONFIG"},
        ),
    ],
)
def test_every_variable_is_told(page: str, sources: list[str], pattern: str, some: set[str]) -> None:
    variables = {name for source in sources for name in re.findall(f'"({pattern})"', content(source))}
    assert some <= variables
    assert {name for name in variables if f"`{name}`" not in content(page)} == set()


@pytest.mark.parametrize(
    ("title", "told", "source", "known"),
    [
        ("## Settings", r"^\| `(\w+)` \|", "settings", r'"(MPI_[A-Z_]+)"'),
        ("## Metrics", r"`mpi_worker_(\w+)", "report", r'"mpi_worker_(\w+)"'),
    ],
)
def test_what_the_worker_agent_has_is_told_and_no_other(title: str, told: str, source: str, known: str) -> None:
    found = set(re.findall(told, section("docs/worker.md", title), re.MULTILINE))
    assert found == set(re.findall(known, content(f"agents/worker/{source}.py")))


def test_every_option_of_delivery_is_told() -> None:
    options = {name for option in mpi_delivery.params for name in option.opts if name.startswith("--")}
    assert {name for name in options if f"`{name}`" not in content("docs/delivery.md")} == {"--master", "--version"}


def test_every_file_of_sshds_start_is_compiled() -> None:
    sources = {name for name in os.listdir(os.path.join(ROOT, "sshd_bootstrap")) if name.endswith(".c")}
    assert {os.path.basename(source) for source in start_build.SOURCES} == sources


# kubectl mpi.


def flags(one: click.Command) -> set[str]:
    if isinstance(one, click.Group):
        return set().union(*map(flags, one.commands.values()))
    return {flag for parameter in one.params if isinstance(parameter, click.Option) for flag in parameter.opts}


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert set(ROWS) == set(kubectl_mpi.commands)


@pytest.mark.parametrize("name", kubectl_mpi.commands)
def test_options_are_named_and_there(name: str) -> None:
    line = next(line for line in content(CLIENT).splitlines() if line.startswith(f"| `kubectl mpi {name}"))
    told = line + (section(CLIENT, "## Run") if name == "run" else "")
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", told.replace("pods/exec", "")))
    known = flags(kubectl_mpi.commands[name])
    assert named <= known
    options_ = [one for one in kubectl_mpi.commands[name].params if isinstance(one, click.Option)]
    assert [one.name for one in options_ if not (COMMON | named) & {*one.opts}] == []


@pytest.mark.parametrize("name", sorted({*kubectl_mpi.commands} - {"convert", "local"}))
def test_commands_share_options(name: str) -> None:
    assert {"--namespace", "--context", "--kubeconfig"} <= flags(kubectl_mpi.commands[name])


def test_the_help_has_kubectl_mpis_exit_codes() -> None:
    documented = " ".join((options.__doc__ or "").partition("Exit codes:")[2].split())
    assert {int(code) for code in re.findall(r"(?:^|; )(\d+) ", f"; {documented}")} == KUBECTL_MPI


def test_methods_of_the_client_are_there() -> None:
    line = re.search(r"`MpiClient` has (.*?)\.", content(CLIENT), re.DOTALL)
    assert line is not None
    named = set(re.findall(r"`(\w+)`", line[1]))
    assert len(named) == 15
    assert [name for name in named if not callable(getattr(MpiClient, name, None))] == []
