"""Each request of the handle gets its own answer, and one that waits too long says why."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from raw_api import STDOUT, RawExec

from agents.playground import Cluster, ClusterError, server_process
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class InterruptionError(Exception):
    pass


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as cluster:
        yield cluster


def test_any_error_is_an_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods").touch()
    cluster = Cluster(tmp_path)
    cluster.start()
    with pytest.raises(ClusterError, match="FileExistsError"):
        cluster.create_pod("homeless")
    with pytest.raises(ClusterError, match="failed 1 times"):
        cluster.__exit__(None, None, None)
    assert "FileExistsError" in capfd.readouterr().err


def test_a_pod_that_has_ended_starts_nothing(cluster: Cluster) -> None:
    cluster.create_pod("one")
    assert cluster.exec_local("one", ["true"]).wait(30) == 0
    cluster.set_state("one", "oom-killed")
    until(lambda: not cluster.processes()["shims"], "its processes have ended")
    with pytest.raises(OSError, match="the pod has ended"):
        cluster.exec_local("one", ["true"])


def test_a_command_that_its_pod_has_no_time_to_start_has_ended(cluster: Cluster) -> None:
    cluster.create_pod("one")
    token = cluster.token()
    with RawExec(cluster, "one", ["cat"], stdin=True, token=token) as first:
        first.send(0, b"!")
        first.until(STDOUT, b"!")
        (shim,) = cluster.processes()["shims"]
        os.kill(shim, signal.SIGSTOP)
        with RawExec(cluster, "one", ["true"], token=token) as second:
            os.kill(shim, signal.SIGKILL)
            for stream in (first, second):
                assert stream.finish()["details"]["causes"][0]["message"] == "137"
    with RawExec(cluster, "one", ["true"], token=token) as third:
        assert third.finish()["details"]["causes"][0]["message"] == "137"
    assert cluster.stats()["running"] == 0


def test_the_answer_to_an_interrupted_request_is_no_others(cluster: Cluster) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptionError  # as pytest-timeout does

    before = signal.signal(signal.SIGUSR2, interrupt)
    cluster.suspend()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR2))
    try:
        with pytest.raises(InterruptionError):  # noqa: PT012 - the signal may come before the request
            timer.start()
            cluster.stats()
    finally:
        timer.join()
        signal.signal(signal.SIGUSR2, before)
        cluster.resume()
    assert cluster.processes()["shims"] == []


def test_a_server_that_does_not_answer_says_where_it_stands(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(tmp_path) as cluster:  # its stderr is what capfd reads
        monkeypatch.setattr(server_process, "SILENT_S", 0.1)
        cluster.suspend()
        asking = threading.Thread(target=cluster.stats)
        asking.start()
        try:
            until(lambda: is_pending(cluster.pid, signal.SIGUSR1), "it is told to dump its stack")
        finally:
            cluster.resume()
            asking.join()
    said = capfd.readouterr().err
    assert "has not answered 'stats' for 0.1 s" in said
    assert "agents/playground/server.py" in said, "its stack"


def is_pending(pid: int, number: int) -> bool:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        pending = next(line for line in file if line.startswith("ShdPnd"))
    return bool(int(pending.split()[1], 16) >> (number - 1) & 1)
