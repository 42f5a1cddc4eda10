"""rshagent-direct: how it starts a hub on the delivered Python, or becomes the client."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rshagent.native import client_build

if TYPE_CHECKING:
    from pathlib import Path

# In the loader's or the client's place: says how it was called.
SHOW = """#!/bin/sh
printf '%s\\n' "${0##*/}" "$@"
echo "$LD_PRELOAD,$LD_AUDIT,$LC_ALL"
exit 7
"""
SERVE = {"MPI_AGENT_SERVE": "/nowhere/hub.sock"}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("starter") / "rshagent-direct"
    assert client_build.main([str(made), "--direct-start"]) == 0
    return made


@pytest.fixture
def starter(program: Path, tmp_path: Path) -> Path:
    """The starter in a folder of tools, whose client and python/ only tell."""
    folder = tmp_path / "tools here"
    (folder / "python").mkdir(parents=True)
    for name in ("rshagent", "python/ld.so"):
        (folder / name).write_text(SHOW)
        (folder / name).chmod(0o755)
    os.link(program, folder / "rshagent-direct")
    return folder / "rshagent-direct"


def call(starter: Path, *words: str, **environ: str) -> tuple[int, list[str]]:
    done = subprocess.run([starter, *words], capture_output=True, text=True, env=environ, timeout=30, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.split("\n")[:-1]


def test_it_starts_a_hub_on_the_python_beside_it_by_its_own_loader(starter: Path) -> None:
    """What is preloaded is of the image's C library, and so are its locales."""
    python = starter.parent / "python"
    assert call(starter, **SERVE, LD_PRELOAD="/nowhere.so", LD_AUDIT="/nowhere.so", LC_ALL="de_DE.ISO-8859-1") == (
        7,
        [
            *("ld.so", "--inhibit-cache", "--library-path", f"{python}/lib", f"{python}/bin/python3"),
            *("-I", "-S", "-B", "-c", "import sys; from rshagent.hub.cli import own; sys.exit(own())"),
            ",,C",
        ],
    )


def test_called_as_the_agent_it_becomes_the_client(starter: Path, tmp_path: Path) -> None:
    link = tmp_path / "kubexec.sh"
    link.symlink_to(starter)
    expected = ["rshagent", "-x", "worker-0", "echo  a", "", ",,de_DE.UTF-8"]
    assert call(link, *expected[1:-1], LC_ALL="de_DE.UTF-8") == (7, expected)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            SERVE,
            "{}/python/ld.so can't be run: No such file or directory; "
            "deliver the tool `direct` whole, with its folder python",
        ),
        ({}, "{}/rshagent can't be run: No such file or directory; call rshagent, which the tool `client` delivers"),
    ],
)
def test_what_is_missing_is_one_line(program: Path, environ: dict[str, str], said: str) -> None:
    done = subprocess.run([program, "worker-0"], capture_output=True, text=True, timeout=30, check=False, env=environ)
    assert (done.returncode, done.stdout, done.stderr) == (255, "", f"rshagent: {said.format(program.parent)}\n")
