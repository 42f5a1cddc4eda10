"""What the documents list is what there is: files, options, variables, values, rights, metrics, conditions, images."""

from __future__ import annotations

import ast
import glob
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from test_chart import OPEN, VALUES, installed, paths
from test_docs import content
from test_job_definition import OURS, SPECS, T9KS_OURS

from agents.job.conditions import KUBEFLOW, Type
from agents.job.model import annotation
from agents.operator.cli import command as operator
from agents.operator.metrics import Metrics
from agents.playground.launchers import LAUNCHERS
from images.catalog import BARE, IMAGES, ROOT
from rshagent.hub import cli as hub
from rshagent.session.engine import DEFAULT_LIMITS
from tests import yamls

if TYPE_CHECKING:
    import click

RSHAGENT = ("call", "hub", "native", "net", "pods", "session", "stream")
PACKAGES = {
    "## Inside rshagent": ("rshagent", *(f"rshagent/{name}" for name in RSHAGENT)),
    "## Inside the operator": ("agents/job", "agents/operator"),
}
SOURCES = (".py", ".c")


def section(page: str, title: str) -> str:
    """A section's text, with those below it."""
    level = title.partition(" ")[0]
    found = re.search(
        rf"^{re.escape(title)}$(.*?)(?=^#{{1,{len(level)}}} |\Z)", content(page), re.MULTILINE | re.DOTALL
    )
    assert found is not None, title
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of a text's tables, without their heads."""
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in found if not set(row[0]) <= set("-|")]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def options(command: click.Command) -> set[str]:
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    return {name for one in shown for name in (*one.opts[:1], *one.secondary_opts)} - {"--version", "--help"}


def long_names(path: str) -> set[str]:
    """A package's files as the page names them, except those that only make it a package or a command."""
    names = {name for name in os.listdir(os.path.join(ROOT, path)) if name.endswith(SOURCES)}
    return {name.removesuffix(".py") for name in names if not name.startswith("__")}


@pytest.mark.parametrize("title", PACKAGES)
def test_every_file_of_a_package_is_named_and_no_other(title: str) -> None:
    named = {name for row in rows(section("docs/architecture.md", title)) for name in quoted(row[0])}
    there = {name for path in PACKAGES[title] for name in long_names(path)}
    assert {name for name in named if not name.endswith("/")} == there


def test_paths_through_the_code_have_the_files_that_they_count() -> None:
    """test_docs looks whether these files exist."""
    text = section("docs/architecture.md", "## Three paths through the code")
    paths = re.findall(r"^\*\*From .*?\*\* \((\d+) files\):\n\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    named = [{one for one in quoted(files) if one.endswith(SOURCES)} for _, files in paths]
    assert len(paths) == 3
    assert [int(count) for count, _ in paths] == [len(files) for files in named]


def test_every_option_of_the_operator_is_told_and_no_other() -> None:
    table = rows(section("docs/operator.md", "## Options and metrics"))
    assert {name for row in table for name in quoted(row[0]) if name.startswith("--")} == options(operator)


def test_every_metric_of_the_operator_is_told_and_no_other() -> None:
    text = section("docs/operator.md", "## Options and metrics")
    told = {
        re.sub("^…", "mpi_operator_jobs", name).partition("{")[0]
        for row in rows(text)
        for name in quoted(row[0])
        if not name.startswith("--")
    }
    assert told == set(re.findall(r"^# TYPE (\w+)", Metrics().text(), re.MULTILINE))


def test_every_condition_of_ours_is_told_and_no_other() -> None:
    told = {row[0] for row in rows(section("docs/operator.md", "## Status and conditions"))} - {"condition"}
    assert told == {str(one) for one in Type if one not in KUBEFLOW}


def test_annotations_are_named_as_their_fields() -> None:
    table = rows(section("docs/operator.md", "## Settings"))[1:]
    short = {"ssh.sshdPath": "sshdPath", "runMode.debug.enabled": "debug", "runMode.pause.enabled": "pause"}
    for fields, told in ((quoted(row[0]), quoted(row[1])) for row in table):
        keys = [short.get(name, re.sub(r"^ssh\.(.)", lambda found: f"ssh{found[1].upper()}", name)) for name in fields]
        assert [f"mpi-agents/{name}" for name in told] == [annotation(key) for key in keys]


def test_fields_of_ours_are_the_definitions() -> None:
    told = {name for row in rows(section("docs/operator.md", "## Settings"))[1:] for name in quoted(row[0])}
    assert told <= SPECS["v2beta1"].keys()
    assert {name.partition(".")[0] for name in OURS} <= {name.partition(".")[0] for name in told}


def test_fields_of_the_run_policy_are_the_definitions() -> None:
    told = [quoted(row[0])[0] for row in rows(section("docs/operator.md", "## runPolicy"))[1:]]
    there = {name.removeprefix("runPolicy.") for name in SPECS["v2beta1"] if name.startswith("runPolicy.")}
    assert set(told) == {name for name in there if "." not in name}


def test_fields_of_t9ks_jobs_are_the_definitions() -> None:
    tables = [row for row in rows(section("docs/t9k.md", "## Fields")) if row[0] != "field"]
    told = {name for row in tables for name in in_full(quoted(row[0]))}
    known = {name.removeprefix("replicaSpecs.[].") for name in SPECS["t9k"]}
    assert told <= known
    assert told >= T9KS_OURS


def in_full(names: list[str]) -> list[str]:
    """`runPolicy.a`, `b` are two of one part."""
    part = names[0].rpartition(".")[0]
    return [name if "." in name or not part else f"{part}.{name}" for name in names]


def test_every_value_of_the_chart_is_told_and_no_other() -> None:
    told = {name for row in rows(section("docs/install.md", "## Values"))[1:] for name in written_out(quoted(row[0]))}
    there = set(paths(VALUES))
    parts = {path for path in there if path not in OPEN and any(one.startswith(f"{path}.") for one in there)}
    assert told == {one for one in there - parts if not any(one.startswith(f"{path}.") for path in OPEN)}


def test_defaults_of_values_are_the_charts() -> None:
    told = 0
    for row in rows(section("docs/install.md", "## Values"))[1:]:
        names, defaults = written_out(quoted(row[0])), row[1].split(", ")
        for name, text in zip(names, defaults if len(defaults) == len(names) else [row[1]] * len(names), strict=True):
            if text.startswith("`") or text.isdigit():
                value: Any = VALUES
                for part in name.split("."):
                    value = value[part]
                told += 1
                assert value == yamls.load(text.strip("`")), name
    assert told > 20


def written_out(names: list[str]) -> list[str]:
    """`rbac.create`, `.launcherRoles` are two of one part."""
    found: list[str] = []
    for name in names:
        found.append(f"{found[-1].rpartition('.')[0]}{name}" if name.startswith(".") else name)
    return found


def test_every_right_of_the_operator_is_told_and_no_other() -> None:
    table = {row[0]: set(row[1].split(", ")) for row in rows(section("docs/install.md", "## Rights"))[1:]}
    told = {
        (resource, verb)
        for what, verbs in table.items()
        if " own " not in what
        for resource in named(what)
        for verb in verbs
    }
    rights = {
        (resource, verb)
        for rule in installed("ClusterRole", "mpi-agents")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert told - {("podgroups", verb) for verb in table["podgroups"]} == rights


def named(what: str) -> list[str]:
    """The resources in a cell: `mpijobs, with …` is one, `jobs.batch` is jobs."""
    words = re.split(r", | and ", what.partition(", with ")[0].partition(" of ")[0])
    return [word.partition(".")[0] for word in words]


def test_every_limit_of_the_agent_is_told_with_its_default() -> None:
    text = section("docs/rshagent.md", "## Settings").partition("Limits, in seconds:")[2].partition("\n\n")[0]
    assert {name: float(number) for name, number in re.findall(r"`(\w+)`\s+(\d+)", text)} == DEFAULT_LIMITS


def test_every_variable_of_the_agent_is_told() -> None:
    sources = [os.path.join(ROOT, "rshagent", folder, "*.[pc]*") for folder in ("", *RSHAGENT)]
    code = "".join(content(os.path.relpath(path, ROOT)) for pattern in sources for path in glob.glob(pattern))
    variables = set(re.findall(r'"(MPI_AGENT_[A-Z]\w+)[="]', code))
    assert {"MPI_AGENT_SOCKET", "MPI_AGENT_EXPLAIN", "MPI_AGENT_SERVE"} <= variables
    told = set(re.findall(r"`(MPI_AGENT_\w+)", content("docs/rshagent.md") + content("docs/protocol.md")))
    assert variables - told == {"MPI_AGENT_SERVICE_ACCOUNT"}  # the playground's, whose pods are no containers


def test_every_launcher_of_the_playground_is_told_and_no_other() -> None:
    text = section("README.md", "## Run your own program")
    assert set(quoted(text.partition("Launchers: ")[2].partition(". ")[0])) == LAUNCHERS.keys()
    [without_mpi4py] = re.findall(r"all but ([^;]*) with mpi4py", text)
    assert set(quoted(without_mpi4py)) == {
        one.name for one in LAUNCHERS.values() if not any("mpi4py" in package for package in one.packages)
    }
    sizes = sorted(one.megabytes for one in LAUNCHERS.values())
    assert f"({sizes[0]} to {sizes[-2]} MB, Intel MPI {sizes[-1]} MB)" in text


def test_every_exit_code_of_the_hub_is_told() -> None:
    [line] = re.findall(r"^`rshagent-hub` ends with (.*)$", content("docs/rshagent.md"), re.MULTILINE)
    assert set(map(int, re.findall(r"\d", line))) == {0, hub.EXIT_CHECK_FAILED, 2, hub.EXIT_CANNOT_SERVE}


def test_every_image_is_told() -> None:
    text = content("docs/images.md")
    assert {name for name in IMAGES if f"`{name}`" not in text} <= {"mpi-agents", "mpi-agents-kubectl"}
    assert {one.name for one in BARE} <= set(quoted(text))


TROUBLES = "docs/troubleshooting.md"
MESSAGES = (
    "## Job conditions and events",
    "## Workers that are not ready",
    "## Delivery",
    "## rshagent",
    "## ssh",
    "## The operator's log",
)


def strings() -> str:
    """All texts in the product's code, one a line; what a C compiler would join is joined."""
    found = [content(os.path.relpath(path, ROOT)) for path in glob.glob(f"{ROOT}/charts/mpi-agents/templates/*")]
    for package in ("agents", "delivery", "rshagent", "sshd_bootstrap"):
        for path in glob.glob(f"{ROOT}/{package}/**/*.[pc]*", recursive=True):
            text = content(os.path.relpath(path, ROOT)) if path.endswith((".py", ".c")) else ""
            if path.endswith(".py"):
                parts = [one.value for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant)]
                text = "\n".join(one for one in parts if isinstance(one, str))
            found.append(re.sub(r'"\s*"', "", text))
    return "\n".join(found)


@pytest.fixture(scope="module")
def code() -> str:
    return strings().lower()


@pytest.mark.parametrize("title", MESSAGES)
def test_messages_are_the_codes(title: str, code: str) -> None:
    messages = [message for row in rows(section(TROUBLES, title))[1:] for message in quoted(row[0])]
    pieces = [piece.strip() for message in messages for piece in message.split("…") if piece.strip()]
    assert pieces
    assert [piece for piece in pieces if piece.lower() not in code] == []
