"""What the whole project keeps to and no tool checks."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest

import rshagent
from images import catalog

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(ends: tuple[str, ...], *folders: str) -> list[str]:
    found = []
    for folder in folders:
        for path, _folders, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.relpath(os.path.join(path, name), ROOT) for name in names if name.endswith(ends)]
    return sorted(found)


def modules(*folders: str) -> list[str]:
    return files((".py",), *folders)


def imported(module: str) -> set[str]:
    with open(os.path.join(ROOT, module), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("module", modules("agents/common", "rshagent"))
def test_the_rsh_agent_and_what_all_share_need_no_package(module: str) -> None:
    """import-linter knows packages that are listed; this knows all."""
    assert imported(module) <= sys.stdlib_module_names | {"agents", "rshagent"}


@pytest.mark.parametrize("module", modules("agents", "delivery", "rshagent"))
def test_every_module_says_what_it_is_for(module: str) -> None:
    with open(os.path.join(ROOT, module), encoding="utf-8") as file:
        assert ast.get_docstring(ast.parse(file.read()))


def test_the_client_has_at_most_400_lines() -> None:
    with open(os.path.join(ROOT, "rshagent", "native", "client.c"), encoding="utf-8") as file:
        assert len(file.readlines()) <= 400


@pytest.mark.parametrize("name", files((".md", ".yaml", "Dockerfile"), "docs", "examples", "tests/cluster"))
def test_images_are_named_by_the_projects_version(name: str) -> None:
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        named = re.findall(r"\bmpi-agents[\w-]*:(\d[\w.]*)", file.read())
    assert set(named) <= {catalog.version()}
    assert named or not name.startswith("examples/exec/")


def test_the_package_has_the_projects_version() -> None:
    assert rshagent.__version__ == catalog.version()


with open(os.path.join(ROOT, "pyproject.toml"), "rb") as project:
    SCRIPTS = tomllib.load(project)["project"]["scripts"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_command_says_in_a_line_which_package_is_missing(name: str) -> None:
    module, _, function = SCRIPTS[name].partition(":")
    code = f"import sys; sys.path.insert(0, {ROOT!r}); from {module} import {function}; sys.exit({function}())"
    bare = [sys.executable, "-I", "-S", "-c", code, "--help"]
    done = subprocess.run(bare, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    if not module.startswith(("rshagent", "delivery.canopie")):  # these need none
        assert re.fullmatch(rf"{name}: No module named '\w+': install mpi-agents\[\w+\]\n", done.stderr)
        assert done.returncode == 1
