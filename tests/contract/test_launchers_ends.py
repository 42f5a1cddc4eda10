"""Real launchers: how their jobs end, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from launching import ALL, ATTACHED, WAITING, gate, start

from tests.waiting import until

if TYPE_CHECKING:
    from launching import Gate, Start

__all__ = ["gate", "start"]


# One rank: when it has to end others, Intel MPI may say 255 instead. Horovod has 1 for all that fails.
@pytest.mark.parametrize(
    ("name", "code"), [("openmpi5", 3), ("openmpi4", 3), ("mpich", 3), ("impi", 3), ("horovod", 1)]
)
def test_an_applications_exit_code_comes_back(start: Start, name: str, code: int, gate: Gate) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", gate.path, "3", ranks=1)
    running.until_output("at ")
    gate.open()
    assert running.end() == code, running.errors
    running.assert_nothing_left()


@pytest.mark.parametrize("name", ALL)
def test_ctrl_c_ends_all_ranks(start: Start, name: str, gate: Gate) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", gate.path)
    running.until_output("at ", 2)
    os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does
    code = running.end()
    running.assert_nothing_left()
    assert "over" not in running.output
    if name == "horovod":
        # Two threads of each of its processes wait for the agent's shell (psutil's wait and Popen's), and Popen takes
        # an end that the other has reaped for a 0. So its own code says nothing here, and the hub's log is what tells.
        assert code in (0, 1), running.errors
        assert {one["host"] for one in running.until_ended(2, "signalled", "client_died")} == set(running.job.workers)
    else:
        assert code != 0, running.errors


@pytest.mark.parametrize("name", ALL)
def test_a_killed_launcher_leaves_nothing(start: Start, name: str, gate: Gate) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", gate.path)
    running.until_output("at ", 2)
    running.process.kill()
    assert running.end() == 128 + signal.SIGKILL
    running.assert_nothing_left()
    until(lambda: not running.agents(), "the agents have ended")


@pytest.mark.parametrize("name", [*ATTACHED, "horovod"])
def test_a_killed_agent_ends_its_worker(start: Start, name: str, gate: Gate) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", gate.path)
    running.until_output("at ", 2)
    os.kill(running.agents()[0], signal.SIGKILL)
    code = running.end()
    running.assert_nothing_left()
    # Open MPI 5 takes an agent that died of a signal for one that did well: its bug, so the hub's log is what tells.
    assert (code == 0) is (name == "openmpi5"), running.errors
    assert "over" not in running.output
    until(lambda: [one for one in running.sessions() if one["result"] != "ok"], "the hub has logged it")
