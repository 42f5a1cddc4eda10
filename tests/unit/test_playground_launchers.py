"""The launchers' table, and their virtual environments."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

from agents.playground import image, wheels
from agents.playground.cluster import Cluster, ClusterError
from agents.playground.launchers import LAUNCHERS, PROGRAMS, SetupError

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.launchers import Launcher

ALL = list(LAUNCHERS.values())
PROGRAM = ["python", "x.py"]


@pytest.mark.parametrize(
    ("name", "workers", "line"),
    [
        ("openmpi5", 2, ["mpirun", "-n", "4", *PROGRAM]),
        ("openmpi4", 70, ["mpirun", "-n", "4", *PROGRAM]),
        ("mpich", 2, ["mpiexec", "-n", "4", *PROGRAM]),
        ("impi", 2, ["mpiexec", "-n", "4", *PROGRAM]),
        (
            "horovod",
            2,
            ["python", f"{PROGRAMS}/horovodrun.py", "--gloo", "-np", "4", "--hostfile", "/hosts", *PROGRAM],
        ),
    ],
)
def test_command_lines(name: str, workers: int, line: list[str]) -> None:
    assert LAUNCHERS[name].command(4, workers, "/hosts", PROGRAM) == line


def test_horovod_looks_for_no_interface_on_many_workers() -> None:
    line = LAUNCHERS["horovod"].command(4, 70, "/hosts", PROGRAM)
    assert line[-4:] == ["--network-interface", "lo", *PROGRAM]


@pytest.mark.parametrize("launcher", ALL, ids=lambda one: one.name)
def test_an_image_brings_its_own_python(launcher: Launcher) -> None:
    environ = launcher.environment("/prefix", "/usr/bin:/bin")
    assert environ["PATH"] == "/prefix/bin:/usr/bin:/bin"
    assert not [value for value in environ.values() if "{" in value]


def test_environments_are_kept_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = wheels.folder(LAUNCHERS["mpich"])
    assert folder.startswith(f"{tmp_path}/mpi-agents/launchers/mpich-5.0.2-py3.")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wheels.folder(LAUNCHERS["mpich"]).startswith(f"{tmp_path}/.cache/mpi-agents/")


def test_what_is_installed_is_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    launcher = dataclasses.replace(LAUNCHERS["mpich"], name="empty", packages=("pip",))  # is in every environment
    told: list[str] = []
    prefix = wheels.installed(launcher, told.append)
    assert os.path.exists(f"{prefix}/bin/python")
    assert told[0] == f"installing MPICH 5.0.2 into {prefix} (once; 66 MB)"
    assert [line.split()[0] for line in told] == ["installing", "installed"]
    assert wheels.installed(launcher, told.append) == prefix
    assert len(told) == 2


def test_what_failed_half_way_is_not_taken_for_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    python = tmp_path / "python"  # this one's pip will do: to install another takes seconds
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" --without-pip\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PYTHONPATH", sysconfig.get_path("purelib"))
    launcher = dataclasses.replace(LAUNCHERS["mpich"], name="none", packages=("./nowhere-1-py3-none-any.whl",))
    with pytest.raises(SetupError) as failure:
        wheels.installed(launcher, lambda _text: None)
    assert "MPICH 5.0.2 can't be installed: " in str(failure.value)
    assert "nowhere" in str(failure.value)
    assert "\n" not in str(failure.value)
    assert os.path.exists(f"{wheels.folder(launcher)}/bin/python")
    assert not wheels.is_installed(launcher)


def test_who_waits_for_another_s_installation_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    launcher = dataclasses.replace(LAUNCHERS["mpich"], name="empty", packages=("pip",))
    prefix = wheels.folder(launcher)
    os.makedirs(os.path.dirname(prefix))
    with open(f"{prefix}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told: list[str] = []

        def tell(line: str) -> None:
            """The other has done it meanwhile."""
            told.append(line)
            os.makedirs(f"{prefix}/bin")
            os.symlink(sys.executable, f"{prefix}/bin/python")
            with open(f"{prefix}/.installed", "w", encoding="utf-8") as file:
                file.write("pip\n")
            fcntl.flock(lock, fcntl.LOCK_UN)

        assert wheels.installed(launcher, tell) == prefix
    assert told == [f"waiting for another process that installs into {prefix}"]


def test_folders_that_can_not_be_written_are_said_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    within = str(tmp_path / "file" / "folder")
    monkeypatch.setenv("XDG_CACHE_HOME", within)
    with pytest.raises(SetupError, match="can't be written: Not a directory; XDG_CACHE_HOME says where"):
        wheels.installed(LAUNCHERS["mpich"], lambda _text: None)
    with pytest.raises(SetupError, match="can't be written to: Not a directory"):
        image.build(within)
    with pytest.raises(ClusterError, match="can't be written to: Not a directory"):
        Cluster(within).start()
