"""What people type who know kubectl and Slurm, and what their shells complete."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from user_shell import Shell, manifest

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agents.playground.cluster import Cluster


@pytest.fixture(scope="module")
def user(foreign: Cluster) -> Iterator[Shell]:
    """A shell on a cluster with the jobs `one` and `other`, which nobody runs."""
    shell = Shell(foreign.kubeconfig())
    shell.run("submit", "-f", "-", stdin=manifest("one", "true") + "---\n" + manifest("other", "true"))
    yield shell
    shell.run("delete", "one", "other", "--ignore-not-found")


def test_options_may_be_before_the_command(user: Shell) -> None:
    assert user.run("-n", "default", "list", "-o", "name") == user.run("list", "-o", "name")
    assert "one" in user.run("-A", "--kubeconfig", user.kubeconfig, "list")
    assert user.run("--namespace=nowhere", "list", "-o", "name") == ""
    assert "in namespace hpc." in user.call("-n", "hpc", "cluster", "list", code=0)[1]
    found = user.run("-n", "hpc", "run", "image", "-n", "2", "--dry-run", "pi", "-n", "3")
    assert "namespace: hpc" in found
    assert "'3'" in found


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["squeue"], 2, "It is 'list' here. (`kubectl-mpi --help`"),
        (["scancel", "one"], 2, "It is 'delete' here."),
        (["cluster", "ls"], 2, "It is 'list' here."),
        (["cluster", "ssh", "one"], 2, "No such command 'ssh'. (`kubectl-mpi cluster --help`"),
        (["sttus", "one"], 2, "Did you mean 'status'?"),
        (["wait", "one", "--for=condition=Succeeded"], 2, "(`kubectl-mpi wait --help`"),
        (["wait", "one", "--timeout", "soon"], 2, "Invalid value for '--timeout'"),
        (["wait"], 2, "Missing argument 'JOB'"),
        (["status", "one", "-w", "-o", "json"], 2, "-w can't be combined with -o json"),
        (["events", "one-launcher"], 4, "name the job (one?), not its pod"),
        (["attach", "one-worker-3"], 4, "name the job (one?), not its pod"),
        (["events", "mpijob/none"], 4, 'no MPIJob "none"'),
        (["delete", "--all"], 2, "No such option '--all'"),
        (["logs", "one"], 4, "`kubectl mpi why one`"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(user: Shell, words: list[str], code: int, told: str) -> None:
    found = user.run(*words, code=code)
    assert told in found
    assert found.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["cluster"]])
def test_without_a_command_all_are_shown(user: Shell, words: list[str]) -> None:
    assert user.run(*words, code=2) == user.run(*words, "--help")


def test_jobs_are_named_as_they_are_printed(user: Shell) -> None:
    names = user.run("list", "-o", "name").split()
    assert "mpijob.kubeflow.org/one" in names
    assert "default/one: " in user.run("status", "mpijob.kubeflow.org/one")
    assert "default/other: " in user.run("status", "mpijobs/other")


def test_what_is_there_is_deleted_whatever_else_is_named(user: Shell) -> None:
    user.run("submit", "-f", "-", stdin=manifest("third", "true"))
    assert 'no MPIJob "none"' in user.run("delete", "none", "third", code=4)
    assert "third" not in user.run("list")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_completes_jobs(user: Shell, shell: str) -> None:
    until(lambda: "other" in user.completed(shell, "kubectl-mpi status ", "o"), "jobs come within the time that it has")
    assert "one" not in user.completed(shell, "kubectl-mpi delete one ", "o")
    assert "status" in user.completed(shell, "kubectl-mpi ", "sta")


def test_bash_completes_the_program_alone(user: Shell) -> None:
    """And leaves kubectl's own completion as it is."""
    script = """
        eval "$(_KUBECTL_MPI_COMPLETE=bash_source kubectl-mpi)"; complete -p
        COMP_WORDS=(kubectl-mpi status oth) COMP_CWORD=2; _kubectl_mpi_completion kubectl-mpi; echo "${COMPREPLY[@]}"
    """

    def printed() -> list[str]:
        done = subprocess.run(["bash", "-c", script], env=user.environ(), capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    registered, completed = until(
        lambda: found if (found := printed())[-1] else None, "jobs come within the time that it has"
    )
    assert registered.endswith(" kubectl-mpi")
    assert completed == "other"


def test_completion_without_a_cluster_is_quiet(tmp_path: Path) -> None:
    assert Shell(str(tmp_path / "none")).completed("bash", "kubectl-mpi status ", "").strip() == ""


def test_completion_does_not_wait_for_a_server_that_says_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}
        context = {"contexts": [{"name": "x", "context": {"cluster": "x"}}], "current-context": "x"}
        (tmp_path / "silent").write_text(json.dumps({"clusters": [cluster], **context}))
        assert Shell(str(tmp_path / "silent")).completed("bash", "kubectl-mpi status ", "").strip() == ""
        silent.settimeout(0)
        silent.accept()[0].close()  # it was asked


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("cli", ["--help"]), ("cli", ["list", "--wrong"]), ("cli", ["nothing"]), ("completing", ["stat"])],
)
def test_what_asks_no_cluster_does_not_load_what_cluster_access_takes(module: str, arguments: list[str]) -> None:
    """The package `kubernetes` takes nearly half of the start."""
    script = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        f"sys.argv[1:] = {arguments}; from agents.kubectl_mpi.{module} import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert f"agents.kubectl_mpi.{module}" in done.stderr.split()
    assert "kubernetes" not in done.stderr.split()


def test_kubectl_completes_its_plugin(user: Shell, tmp_path: Path) -> None:
    for name, module in (
        ("kubectl-mpi", "agents.kubectl_mpi"),
        ("kubectl_complete-mpi", "agents.kubectl_mpi.completing"),
    ):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (tmp_path / name).chmod(0o755)
    assert user.kubectl("__complete", "mpi", "stat", path=str(tmp_path)).startswith("status\tShow a job on one screen")
    until(
        lambda: user.kubectl("__complete", "mpi", "why", "", path=str(tmp_path)).splitlines()[:2] == ["one", "other"],
        "jobs come within the time that it has",
    )
