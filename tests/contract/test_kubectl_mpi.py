"""`kubectl mpi` and its Python client as people call them: terminals, usage, rights."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml
from user_shell import ESCAPE, Shell, manifest

from agents.client import ForbiddenError, MpiClient, NotFoundError, State, WaitTimeoutError
from rshagent import __version__
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.operated import Operated


def test_colour_is_for_terminals(shell: Shell) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("gaudy", "true"))
    shell.run("wait", "gaudy")
    assert re.search(r"\x1b\[32mSucceeded *\x1b\[0m", shell.on_terminal("list"))
    assert ESCAPE not in shell.on_terminal("list", NO_COLOR="1")
    assert f"{ESCAPE}J" in shell.on_terminal("status", "gaudy", "--watch")
    assert re.fullmatch(r"\d\d:\d\d:\d\d Succeeded: gaudy succeeded.*\n", shell.run("status", "gaudy", "-w"))
    shell.run("delete", "gaudy")


def test_usage_and_version(shell: Shell) -> None:
    assert shell.run("--version") == f"kubectl-mpi {__version__}\n"
    assert "must be NAME=VALUE" in shell.run("run", "img", "-n", "1", "--env", "x", "--", "pi", code=2)
    assert shell.run("list", "-n", "nothing-here") == ""


def test_missing_rights_and_servers(operated: Operated, tmp_path: Path) -> None:
    cluster = operated.cluster
    reader = Shell(cluster.kubeconfig(cluster.token("list pods")))
    assert 'cannot list resource "mpijobs"' in reader.run("list", code=5)
    stranger = Shell(cluster.kubeconfig("no such token"))
    assert "does not accept these credentials" in stranger.run("list", code=3)
    with open(cluster.kubeconfig(), encoding="utf-8") as file:
        config = json.load(file)
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    (tmp_path / "dead").write_text(json.dumps(config))
    assert "no answer from https://127.0.0.1:" in Shell(str(tmp_path / "dead")).run("list", code=3)
    assert "no cluster is configured by" in Shell(str(tmp_path / "none")).run("list", code=3)


def test_the_client_in_python(operated: Operated) -> None:
    with MpiClient(kubeconfig=operated.cluster.kubeconfig(), namespace="default") as client:
        made = client.submit(yaml.safe_load(manifest("py", "sh", "-c", "echo begun; sleep 600")))
        assert (made.name, made.workers, made.state) == ("py", 2, State.PENDING)
        running = client.wait("py", until=lambda status: status.state is State.RUNNING, timeout_s=60)
        assert [worker.ready for worker in running.workers] == [True, True]
        assert next(iter(client.logs("py", follow=True))) == "begun"
        with pytest.raises(WaitTimeoutError, match="not within 0 s: py has been running"):
            client.wait("py", timeout_s=0)
        assert [job.name for job in client.list() if job.name == "py"] == ["py"]
        changes = client.changes("py")
        next(changes)
        client.delete("py")
        with pytest.raises(NotFoundError):
            list(changes)
    with (
        MpiClient(kubeconfig=operated.cluster.kubeconfig(operated.cluster.token("list pods"))) as client,
        pytest.raises(ForbiddenError),
    ):
        client.get("py")
