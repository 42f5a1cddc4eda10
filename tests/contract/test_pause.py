"""The real `pause`: it reaps what ends without a parent, and ends when it is told to, also as a container's PID 1."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import USER

from rshagent.native import client_build
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=["sanitized"])
def pause(request: pytest.FixtureRequest) -> str:
    return client_build.kept("pause", client_build.PAUSE, sanitize=request.param == "sanitized")


def waits(pid: int) -> bool:
    """Whether a process is `pause`, and sleeps: all that it sleeps in is its wait for signals."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return status["Name"] == "pause" and status["State"].startswith("S")


@pytest.fixture
def started(pause: str) -> Iterator[subprocess.Popen[str]]:
    """`pause` with a child that it has not started itself, as an orphan is; the child's pid is on its stdout."""
    process = subprocess.Popen(["sh", "-c", 'sleep 600 & echo $!; exec "$0"', pause], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            until(lambda: waits(process.pid), "pause waits")
            yield process
        finally:
            process.kill()


def test_orphans_are_reaped(started: subprocess.Popen[str]) -> None:
    assert started.stdout is not None
    orphan = int(started.stdout.readline())
    os.kill(orphan, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{orphan}"), "the orphan is reaped")
    assert started.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ends_when_it_is_told_to(started: subprocess.Popen[str], number: signal.Signals) -> None:
    assert started.stdout is not None
    orphan = int(started.stdout.readline())
    started.send_signal(number)
    assert started.wait() == 0
    os.kill(orphan, signal.SIGKILL)


@pytest.mark.parametrize("pause", ["static"], indirect=True)
def test_ends_as_a_containers_first_process(pause: str) -> None:
    """The kernel drops a signal for PID 1 that this has no handler for."""
    outer = subprocess.Popen(["unshare", *USER, "--pid", "--fork", "--kill-child", pause])
    try:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        first = int(until(lambda: children.read_text().strip(), "unshare has forked"))
        until(lambda: waits(first), "pause waits")
        os.kill(first, signal.SIGTERM)
        assert outer.wait() == 0
    finally:
        outer.kill()
        outer.wait()
