"""Delivery as its own process: how it is called and ended, what it lacks, what it shows, its size."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from typing import IO

import pytest
from delivery_exec import Launcher, cluster, launcher, shared

from delivery import exits
from tests.privileges import NO_CAPABILITIES
from tests.processes import secrets_in_reach

__all__ = ["cluster", "launcher", "shared"]


def test_job_without_workers_needs_no_api(launcher: Launcher) -> None:
    launcher.hostfile.write_text("pi-launcher slots=1\n")
    assert launcher.run(environ={}) == exits.READY
    assert "names no worker" in launcher.told
    assert launcher.hosts() == []


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["--timeout"], ["--timeout", "soon"], ["/a:/b"]])
def test_wrong_usage_is_one_line(launcher: Launcher, arguments: list[str]) -> None:
    launcher.workers(1)
    assert launcher.run(*arguments) == exits.USAGE
    assert len(launcher.told.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_at_once_with_a_line(launcher: Launcher, number: signal.Signals) -> None:
    launcher.workers(1, state="pulling")
    launcher.start()
    launcher.until_told("0/1 ready · pi-worker-0 pulling image")
    launcher.process.send_signal(number)
    assert launcher.end() == 128 + number
    assert f"stopped by {number.name} while waiting: 0/1 ready · pi-worker-0 pulling image" in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_terminal_has_a_live_line(launcher: Launcher) -> None:
    (only,) = launcher.workers(1, state="pulling")
    ours, theirs = pty.openpty()
    environ = {**launcher.environ, **launcher.cluster.environ(), "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-m", "delivery"], env=environ, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as screen:
        seen = read_until(screen, b"0/1 ready")
        launcher.cluster.set_state(only, "ready")
        seen += read_until(screen, b"1/1 ready")
        assert process.wait() == exits.READY
    assert b"\r\x1b[K1/1 ready" in seen


def read_until(screen: IO[bytes], words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += screen.read(4096)
    return seen


MEASURED = """
import atexit, sys
def tell():
    with open("/proc/self/status") as status:
        sys.stdout.write(next(line for line in status if line.startswith("VmHWM")))
atexit.register(tell)
from delivery.cli import main
main()
"""


def test_thousand_workers_fit_into_40_mib(launcher: Launcher) -> None:
    """Each pod has as many fields, and is as large, as real ones are (managedFields, volumes, environment)."""
    launcher.workers(1000, annotations={f"field-{number}": "x" * 30 for number in range(200)})
    launcher.start(code=MEASURED)
    assert launcher.end() == exits.READY
    assert len(launcher.hosts()) == 1000
    assert int(launcher.out.split()[1]) < 40 * 1024


def test_a_process_of_its_user_cant_look_into_it(launcher: Launcher) -> None:
    launcher.workers(1, state="pulling")
    launcher.call([*NO_CAPABILITIES, sys.executable, "-m", "delivery"], launcher.cluster.environ())
    launcher.until_told("0/1 ready")
    assert secrets_in_reach(launcher.process.pid) == []


def test_what_came_from_outside_is_no_line_of_its_own(launcher: Launcher) -> None:
    launcher.workers(1)
    name = "pi\nmpi-delivery: all workers are ready\r\x1b[2J\u202e" + "x" * 2000
    assert launcher.run(name) == exits.TOOL_MISSING
    assert launcher.told.count("\n") == 1
    assert launcher.last_line.isprintable()
    assert len(launcher.last_line.encode()) <= 1024
    assert launcher.log.read_text().isprintable()
