"""`kubectl mpi local`, and `run --local`, with pods that are processes. What `apply` does: test_playground_run.py."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.playing import Playground, playing
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PI = "examples/kubeflow/pi.yaml"
RUN = ("run", "none", "--local", "--no-tag-output")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Playground]:
    with playing(tmp_path, "agents.kubectl_mpi") as playground:
        yield playground


def test_a_file_s_job_runs_from_any_folder(local: Playground, tmp_path: Path) -> None:
    """Also from one with a package of our name."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").touch()
    line = f'cd {tmp_path} && python=$1 && shift && exec "$python" -P "$@"'  # as the installed command
    process = local.start_with(["sh", "-c", line, "sh"], "local", "-f", os.path.abspath(PI))
    assert process.wait(90) == 0, local.errors
    assert "rank 1 of 2 on pi-worker-1" in local.output
    assert "condition pi: Succeeded: " in local.errors
    assert not local.processes()
    assert not os.listdir(local.temporary)


def test_run_finds_the_folder_s_files_and_ends_with_the_program_s_code(local: Playground) -> None:
    process = local.start(*RUN, "-n", "2", "--", "sh", "-c", "pwd; exit 3")
    assert process.wait(90) == 3, local.errors
    assert os.getcwd() in local.output.splitlines()
    assert "exited with 3." in local.errors  # which rank was first, Open MPI 4 says or not
    assert not local.processes()


def test_run_syncs_a_folder(local: Playground, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "case.in").write_text("a case\n")
    process = local.start(
        *RUN, "-n", "2", "--sync", str(tmp_path / "files"), "--namespace", "x", "--", "cat", "case.in"
    )
    assert process.wait(90) == 0, local.errors
    assert local.output.splitlines().count("a case") == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_removes_everything(local: Playground, number: int, code: int) -> None:
    process = local.start(*RUN, "-n", "2", "--", "sh", "-c", "echo begun; sleep 1000")
    until(lambda: local.output.count("begun") == 2, "the ranks run")
    process.send_signal(number)
    assert process.wait(60) == code, local.errors
    until(lambda: not local.processes(), "all processes are gone")
    assert not os.listdir(local.temporary)


@pytest.mark.parametrize("module", ["aiohttp", "cryptography"])
def test_what_is_not_installed_is_named(local: Playground, tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules['{module}'] = None\n")
    process = local.start_with(["env", f"PYTHONPATH={tmp_path}:{os.getcwd()}"], "local", "-f", PI)
    assert process.wait(90) == 1
    assert local.errors == f"mpi-playground: No module named '{module}': install mpi-agents[playground]\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["local"], "Missing option '-f'"),
        (["local", "-f", "nothing.yaml"], "'nothing.yaml' does not exist"),
        (["local", "-f", PI, "--pods", "machines"], "'machines' is not one of"),
        (["run", "none", "-n", "1", "--local", "--detach", "true"], "goes without --detach"),
    ],
)
def test_wrong_usage(local: Playground, arguments: list[str], words: str) -> None:
    assert local.start(*arguments).wait(90) == 2
    assert words in local.errors
    assert "Traceback" not in local.errors
