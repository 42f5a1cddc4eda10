"""What the documents point at is there: pages, files, tests, commands, options, values; and their jobs can be run."""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from mpijobs import read_job

from agents.playground import definitions
from agents.playground.cli import command as playground
from images.catalog import IMAGES, ROOT, version
from tests import yamls

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = sorted(
    os.path.relpath(path, ROOT)
    for pattern in ("*.md", "docs/*.md", "examples/*.md")
    for path in glob.glob(os.path.join(ROOT, pattern))
)
EXAMPLES = sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "examples", "*", "*.yaml")))
NOTES = "charts/mpi-agents/templates/NOTES.txt"


def content(name: str) -> str:
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def anchors(page: str) -> set[str]:
    """What GitHub makes of the headings."""
    prose = re.sub(r"^```.*?^```", "", content(page), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", content(page)):
        name, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
        assert "://" in link or os.path.exists(os.path.join(ROOT, target)), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_documentations_readme() -> None:
    index = "docs/README.md"
    links = re.findall(r"\]\(([^)#]+\.md)", content(index))
    linked = {os.path.normpath(os.path.join("docs", link)) for link in links}
    wanted = {page for page in PAGES if page.startswith("docs/")} | {"CONTRIBUTING.md", "SECURITY.md"}
    assert wanted - linked == {index}
    assert f"]({index})" in content("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page: str) -> None:
    packages = "agents|charts|delivery|docs|examples|images|rshagent|sshd_bootstrap|tests"
    named = re.findall(rf"`((?:{packages})/[\w./*-]+)`", content(page))
    assert [name for name in named if not glob.glob(os.path.join(ROOT, name))] == []


@pytest.mark.parametrize("page", PAGES)
def test_make_has_the_targets(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", content("Makefile"), re.MULTILINE))
    calls = re.findall(r"(?:^    |`)make ([a-z-]+(?:,? [a-z-]+)*)", content(page), re.MULTILINE)
    assert {name for call in calls for name in re.findall(r"[a-z-]+", call)} <= targets


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES])
def test_the_playground_has_the_commands_and_options(page: str) -> None:
    for name, words in re.findall(r"mpi-playground ([a-z]+)([^`\n]*)", content(page)):
        command = playground.commands[name]
        known = {option for one in command.params for option in one.opts}
        ours = words.partition(" -- ")[0]
        assert set(re.findall(r"(?<=\s)--?[a-z-]+", ours)) <= known


@pytest.mark.parametrize("page", PAGES)
def test_images_that_are_to_be_built_are_known(page: str) -> None:
    for words in re.findall(r"images\.build ([^`)#|\n]*)", content(page)):
        names = re.sub(r"--[a-z-]+ \S+", "", words.replace("--push", "")).split()
        assert set(names) <= IMAGES.keys()


@pytest.mark.parametrize("page", PAGES)
def test_values_that_are_to_be_set_are_there(page: str) -> None:
    for path in re.findall(r"--set ([\w.]+)=", content(page)):
        found = yamls.load(content("charts/mpi-agents/values.yaml"))
        for name in path.split("."):
            found = found[name]


def test_faults_name_tests_that_there_are() -> None:
    tests = "".join(
        content(os.path.relpath(path, ROOT)) for path in glob.glob(f"{ROOT}/tests/cluster/**/*.py", recursive=True)
    )
    named = set(re.findall(r"`(test_\w+?)(?:\[|`)", content("docs/faults.md")))
    assert len(named) > 20
    assert {name for name in named if f"def {name}(" not in tests} == set()


def mpijobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """All jobs that users are shown, by where they stand."""
    for name in EXAMPLES:
        for one in yamls.load_all(content(name)):
            yield name, one
    for page in PAGES:
        for block in re.findall(r"^```yaml\n(.*?)^```", content(page), re.MULTILINE | re.DOTALL):
            yield page, yamls.load(block)
    notes = re.sub(r"\{\{ include .*? \}\}", "mpi", content(NOTES)).replace("{{ .Chart.AppVersion }}", version())
    [job] = re.findall(r"<<'END'\n(.*?)^END$", notes, re.MULTILINE | re.DOTALL)
    yield NOTES, yamls.load(job)


JOBS = [(name, one) for name, one in mpijobs() if isinstance(one, dict) and one.get("kind") == "MPIJob"]


def test_there_are_jobs_on_pages_and_in_notes() -> None:
    assert {"docs/operator.md", "docs/t9k.md", NOTES} < {name for name, _ in JOBS}


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_a_job_can_be_run_and_the_definition_knows_its_fields(name: str, job: dict[str, Any]) -> None:
    read_job({**job, "metadata": {"namespace": "default", "uid": "1-2", **job["metadata"]}})
    group, _, wanted = job["apiVersion"].partition("/")
    schema = definitions.schemas()[group, wanted, "MPIJob"]
    assert definitions.unknown(schema, job) + definitions.problems(schema, job) == []
