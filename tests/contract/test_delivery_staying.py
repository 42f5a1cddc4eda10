"""Delivery beside a launcher's container that waits in itself: what it tells that, and how it stays."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from delivery_ssh import Launcher, listening

from agents.common import termination
from sshd_bootstrap import paths
from sshd_bootstrap.prepare import prepare
from sshd_bootstrap.settings import Settings
from tests.ports import free_port
from tests.processes import catches
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


def begun(launcher: Launcher, *options: str) -> Path:
    """Have the launcher told that its worker answers, which then goes; return the file that told it."""
    port = free_port()
    hook(launcher)
    ready = launcher.volume / "run" / paths.READY
    with listening(WORKER, port):
        launcher.start(*options, ports=str(port))
        until(ready.exists, "it is told that all answer")
    return ready


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
    assert launcher.log.read_text() == termination.UNUSED, "nobody has opened the keys"
    assert (run / paths.READY).read_text() == "go"
    assert (run / paths.READY).stat().st_mode & 0o777 == 0o666, "the launcher's own user has to take it"


def test_nothing_is_written_before_ssh_is_prepared(launcher: Launcher) -> None:
    launcher.start(ports="2222")
    until(lambda: catches(launcher.process.pid, signal.SIGTERM), "it has begun")
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
    launcher.start("--timeout", "5s", ports=str(port))
    until((run / paths.FAILED).exists, "it reports the failure")
    code, _, line = (run / paths.FAILED).read_text().partition("\n")
    assert code == "24"
    assert "pi-worker-0 not listening" in line
    assert not (run / paths.READY).exists()
    with listening(WORKER, port):
        os.truncate(run / paths.FAILED, 0)
        until((run / paths.READY).exists, "it is told that all answer")
    launcher.process.terminate()
    assert launcher.end() == 0


def test_a_launcher_that_is_started_again_waits_for_its_workers_again(launcher: Launcher) -> None:
    ready = begun(launcher, "--timeout", "5s")
    ready.write_text("again")
    until((launcher.volume / "run" / paths.FAILED).exists, "it is told that the worker has gone")
    assert not ready.exists()
    launcher.process.terminate()
    assert launcher.end() == 0
    assert "restarted" in launcher.told


def test_a_launcher_that_runs_is_told_nothing_by_a_delivery_that_is_started_again(launcher: Launcher) -> None:
    port = free_port()
    hook(launcher)
    run = launcher.volume / "run"
    (run / paths.READY).write_text("taken")
    launcher.start("--timeout", "30s", ports=str(port))
    launcher.until_told("has already started")
    assert "waiting for" not in launcher.told
    with listening(WORKER, port):
        (run / paths.READY).write_text("again")
        until(lambda: (run / paths.READY).read_text() == "go", "it is told that all answer")
    launcher.process.terminate()
    assert launcher.end() == 0


def test_a_launcher_that_is_started_again_without_workers_waits_for_nobody(launcher: Launcher) -> None:
    ready = begun(launcher)
    launcher.hosts_are()
    ready.write_text("again")
    launcher.until_told("names no worker: nothing to wait for")
    until(lambda: ready.read_text() == "go", "it has read that all are ready")
    launcher.process.terminate()
    assert launcher.end() == 0
    assert launcher.told.count("waiting for the sshds") == 1


def test_a_launcher_that_begins_by_an_earlier_delivery_s_word_is_told_nothing_more(launcher: Launcher) -> None:
    port = free_port()
    hook(launcher)
    run = launcher.volume / "run"
    (run / paths.READY).write_text("go")
    launcher.start("--timeout", "5s", ports=str(port))
    launcher.until_told("waiting for the sshds")
    (run / paths.READY).write_text("taken")
    launcher.until_told("has already started")
    launcher.process.terminate()
    assert launcher.end() == 0
    assert (run / paths.READY).read_text() == "taken"
    assert not (run / paths.FAILED).exists()
    assert launcher.log.read_text() == "", "the keys may have been used before"


@pytest.mark.parametrize(("opened", "message"), [("", termination.UNUSED), ("auth/id_rsa", ""), ("run/identity", "")])
def test_it_reports_that_nobody_has_opened_the_keys_since_the_last_start(
    opened: str, message: str, launcher: Launcher
) -> None:
    launcher.environ["MPI_SSH_FOLLOW"] = "true"  # the Secret is compared with them once, before
    port = free_port()
    ready = launcher.volume / "run" / paths.READY
    with listening(WORKER, port):
        launcher.start(ports=str(port))
        hook(launcher)
        until(ready.exists, "the first start is let go")
        (launcher.volume / "auth/id_rsa").read_bytes()
        ready.write_text("again")
        until(lambda: ready.read_text() == "go", "so is the second")
        if opened:
            (launcher.volume / opened).read_bytes()
    launcher.process.terminate()
    assert launcher.end() == 0
    assert launcher.log.read_text() == message


def test_a_failed_wait_reports_nothing_of_the_keys(launcher: Launcher) -> None:
    hook(launcher)
    launcher.start("--timeout", "1s", ports=str(free_port()))
    until((launcher.volume / "run" / paths.FAILED).exists, "it reports the failure")
    launcher.process.terminate()
    assert launcher.end() == 0
    assert launcher.log.read_text() == ""
