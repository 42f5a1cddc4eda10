"""Delivery beside a launcher's container that waits in itself: what it tells that, and how it stays."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from delivery_ssh import Launcher, listening

from sshd_bootstrap import paths
from sshd_bootstrap.prepare import prepare
from sshd_bootstrap.settings import Settings
from tests.ports import free_port
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKER = "127.0.0.2"


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sshd-start").write_bytes(b"program")
    made.environ |= {"MPI_AGENT_STAYS": "true", "MPI_AGENT_TOOLS": str(tools)}
    del made.environ["TARGET_DIR"]
    made.hosts_are("pi-worker-0")
    made.names(pi_worker_0=[WORKER])
    yield made
    made.close()


def hook(launcher: Launcher) -> None:
    """What the container's start does beside it."""
    prepare(Settings.load(launcher.environ))


def test_the_launcher_is_told_that_all_answer(launcher: Launcher) -> None:
    port = free_port()
    run = launcher.volume / "run"
    with listening(WORKER, port):
        launcher.start(ports=str(port))
        hook(launcher)
        until((run / paths.READY).exists, "it is told that all answer")
    assert launcher.process.poll() is None
    launcher.process.terminate()
    assert launcher.end() == 0
    assert launcher.last_line.startswith("1/1 ready")
    assert launcher.log.read_text() == ""
    assert (run / paths.READY).stat().st_mode & 0o777 == 0o644


def test_nothing_is_written_before_ssh_is_prepared(launcher: Launcher) -> None:
    launcher.start(ports="2222")
    with pytest.raises(subprocess.TimeoutExpired):
        launcher.process.wait(0.5)
    assert list(launcher.volume.iterdir()) == []
    launcher.process.terminate()
    assert launcher.end() == 0


def test_a_wait_that_failed_is_told_and_begins_again_when_it_was_taken(launcher: Launcher) -> None:
    port = free_port()
    hook(launcher)
    run = launcher.volume / "run"
    (run / paths.READY).touch()  # of an earlier start
    launcher.start("--timeout", "1s", ports=str(port))
    until((run / paths.FAILED).exists, "it is told of the failure")
    code, _, line = (run / paths.FAILED).read_text().partition("\n")
    assert code == "24"
    assert "pi-worker-0 not listening" in line
    assert not (run / paths.READY).exists()
    with listening(WORKER, port):
        os.truncate(run / paths.FAILED, 0)
        until((run / paths.READY).exists, "it is told that all answer")
    launcher.process.terminate()
    assert launcher.end() == 0
