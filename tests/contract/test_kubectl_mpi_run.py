"""`kubectl mpi run`: a program in the foreground, Ctrl-C, outages."""

from __future__ import annotations

import json
import os
import signal
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
import yaml
from user_shell import Shell, cells

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.operated import Operated


def test_a_program_in_the_foreground(shell: Shell) -> None:
    """Its output is stdout's, its exit code the command's; what `sh` reads is what was written."""
    program = ("sh", "-c", 'echo "$GREETING from $OMPI_COMM_WORLD_RANK, $(echo $$ | wc -l)"')
    found = shell.run("run", "none", "-n", "3", "--slots", "2", "--env", "GREETING=hello", "--rm", "--", *program)
    ranks = [line for line in found.splitlines() if line.startswith("[1,")]  # mpirun may warn
    assert sorted(ranks) == [f"[1,{rank}]<stdout>:hello from {rank}, 1" for rank in range(3)]
    failing = shell.run("run", "none", "-n", "1", "--name", "ends", "--", "sh", "-c", "exit 4", code=4)
    assert "[ends] ends failed after" in failing
    assert cells(shell.run("list"), "ends")[1:3] == ["Failed", "ExitCode4"]
    shell.run("delete", "ends")


@pytest.mark.parametrize("removes", [False, True])
def test_ctrl_c_detaches_or_removes(shell: Shell, *, removes: bool) -> None:
    there = ["--namespace", "default", "--kubeconfig", shell.kubeconfig]
    options = ["-n", "1", "--name", "goes-on", *(["--rm"] if removes else there)]
    program = ["sh", "-c", "echo begun; sleep 600"]
    process = shell.start("run", "none", *options, "--", *program, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    assert "[1,0]<stdout>:begun\n" in process.stdout  # mpirun may warn first
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    if removes:
        assert "mpijob.kubeflow.org/goes-on deleted" in errors
        assert "goes-on" not in shell.run("list")
        return
    attach = f"`kubectl-mpi attach goes-on -n default --kubeconfig {shell.kubeconfig}`"
    assert f"detached; the job keeps running: {attach}" in errors
    assert cells(shell.run("list"), "goes-on")[1] == "Running"
    assert shell.run("exec", "goes-on", "--", "hostname") != ""
    assert "exit code 5" in shell.run("exec", "goes-on", "--worker", "0", "--", "sh", "-c", "exit 5", code=5)
    shell.run("delete", "goes-on")


def test_an_outage_is_waited_for(shell: Shell, operated: Operated, tmp_path: Path) -> None:
    """Connections are reset, and for a while no new ones are accepted."""
    go = tmp_path / "go"
    program = ["sh", "-c", f"echo begun; while ! test -e {go}; do sleep 0.1; done; echo done"]
    following = shell.start("run", "none", "-n", "1", "--name", "lasts", "--", *program, stdout=PIPE, stderr=PIPE)
    assert following.stdout is not None
    assert following.stderr is not None
    assert "[1,0]<stdout>:begun\n" in following.stdout
    watches = operated.cluster.stats()["requests"]["watch"]
    waiting = shell.start("wait", "lasts", stdout=PIPE)
    operated.cluster.until(lambda stats: stats["requests"]["watch"] > watches)
    operated.cluster.listen(on=False)
    operated.cluster.cut()
    line = ""
    while "trying again" not in line:
        line = following.stderr.readline()
        assert line
    operated.cluster.listen(on=True)
    go.touch()
    output, _ = following.communicate(timeout=60)
    assert following.returncode == 0
    assert "done\n" in output
    assert "lasts succeeded" in waiting.communicate(timeout=60)[0]
    assert waiting.returncode == 0
    shell.run("delete", "lasts")


def test_a_run_is_shown_without_a_cluster(tmp_path: Path) -> None:
    nowhere = Shell(str(tmp_path / "none"))
    found = yaml.safe_load(nowhere.run("run", "img", "-n", "4", "--workers", "2", "--dry-run", "--", "pi"))
    assert found["spec"]["slotsPerWorker"] == 2
    (tmp_path / "template").write_text(json.dumps({**found, "spec": {**found["spec"], "mpiImplementation": "Intel"}}))
    template = ("-f", str(tmp_path / "template"))
    again = yaml.safe_load(nowhere.run("run", "img", "-n", "4", *template, "--dry-run", "--", "pi"))
    assert (again["spec"]["slotsPerWorker"], again["spec"]["mpiImplementation"]) == (2, "Intel")
    assert "no cluster is configured by" in nowhere.run("run", "img", "-n", "4", "--", "pi", code=3)


def test_files_of_a_folder_reach_all_pods(shell: Shell, operated: Operated, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data.txt").write_text("of the folder\n")
    (tmp_path / "go.sh").write_text(
        "#!/bin/sh\nread -r line < sub/data.txt && touch out.$$ && echo $(hostname): $line\n"
    )
    (tmp_path / "go.sh").chmod(0o755)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("secret")
    given = ("run", "none", "-n", "2", "--no-tag-output", "--name", "synced", "--sync", str(tmp_path))
    found = shell.run(*given, "--", "./go.sh")
    said = [line for line in found.splitlines() if line.startswith("synced-")]  # mpirun may warn
    assert sorted(said) == [f"synced-worker-{index}: of the folder" for index in range(2)]
    config_maps = "/api/v1/namespaces/default/configmaps"
    assert shell.run("rerun", "synced") == "mpijob.kubeflow.org/synced-2 created\n"
    shell.run("delete", "synced")
    assert "synced-2 succeeded" in shell.run("wait", "synced-2")
    shell.run("delete", "synced-2")
    ask = operated.cluster.request
    until(lambda: "synced-files" not in str(ask("GET", config_maps)), "the files are gone with the last job")
    with open(tmp_path / "large", "wb") as file:
        file.write(os.urandom(1_100_000))
    assert "is too large: its files must fit into 1000 kB" in shell.run(*given, "--", "true", code=2)
    assert "synced" not in shell.run("list", "-o", "name")
