"""The starter of a delivered direct mode: what it calls, and what it keeps from it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rshagent.native import client_build

if TYPE_CHECKING:
    from pathlib import Path

# In the loader's place: says how it was called.
LOADER = """#!/bin/sh
printf '%s\\n' "$@"
echo "$LD_PRELOAD,$MPI_AGENT_LD_PRELOAD,$LC_ALL,$MPI_AGENT_LC_ALL,$MPI_AGENT_ARGV0"
exit 7
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("starter") / "rshagent-direct"
    assert client_build.main([str(made), "--direct-start"]) == 0
    return made


@pytest.fixture
def starter(program: Path, tmp_path: Path) -> Path:
    """The starter in a folder of tools, with a python/ that only tells."""
    folder = tmp_path / "tools here"
    (folder / "python").mkdir(parents=True)
    (folder / "python" / "ld.so").write_text(LOADER)
    (folder / "python" / "ld.so").chmod(0o755)
    os.link(program, folder / "rshagent-direct")
    return folder / "rshagent-direct"


def call(starter: Path, *words: str, **environ: str) -> tuple[int, list[str]]:
    done = subprocess.run([starter, *words], capture_output=True, text=True, env=environ, timeout=30, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.split("\n")[:-1]


def test_it_starts_the_python_beside_it_on_its_own_loader(starter: Path) -> None:
    code, lines = call(starter, "-x", "worker-0", "echo  a", "")
    python = starter.parent / "python"
    assert code == 7
    assert lines[:-1] == [
        *("--inhibit-cache", "--library-path", f"{python}/lib", f"{python}/bin/python3"),
        *("-I", "-S", "-B", "-c", "from rshagent.direct import main; main()"),
        *("-x", "worker-0", "echo  a", ""),
    ]


def test_it_is_found_through_a_link(starter: Path, tmp_path: Path) -> None:
    link = tmp_path / "kubexec.sh"
    link.symlink_to(starter)
    _, lines = call(link, "worker-0")
    assert lines[2] == f"{starter.parent}/python/lib"
    assert lines[-1] == f",,C,,{link}"


def test_the_name_that_the_client_was_called_by_stands(starter: Path) -> None:
    _, lines = call(starter, MPI_AGENT_ARGV0="/etc/mpi/kubexec.sh")
    assert lines[-1] == ",,C,,/etc/mpi/kubexec.sh"


def test_what_is_preloaded_is_kept_from_another_c_library(starter: Path) -> None:
    """It is the image's: loaded into our Python it would end it, or at best complain."""
    _, lines = call(starter, LD_PRELOAD="/lib/libjemalloc.so")
    assert lines[-1].startswith(",/lib/libjemalloc.so,")


def test_the_images_locales_are_for_the_image(starter: Path) -> None:
    """They are in the form of its C library; and Python sets LC_CTYPE for its children where it finds no locale."""
    _, lines = call(starter, LC_ALL="de_DE.ISO-8859-1")
    assert lines[-1].startswith(",,C,de_DE.ISO-8859-1,")


def test_without_its_python_it_says_what_is_missing(program: Path) -> None:
    done = subprocess.run([program, "worker-0"], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr == (
        f"rshagent: {program.parent}/python/ld.so can't be run: No such file or directory; "
        "deliver the tool `direct` whole, with its folder python\n"
    )
