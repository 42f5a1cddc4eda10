"""Real launchers: noise, stdin, long commands, lost streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from launching import ALL, ATTACHED, WAIT, WAITING, gate, start

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from launching import Gate, Start

__all__ = ["gate", "start"]


@pytest.mark.parametrize("name", ALL)
def test_noise_in_a_worker_does_no_harm(start: Start, name: str, gate: Gate) -> None:
    # The dynamic loader then complains on stderr in every process, /bin/sh and the launcher's daemons among them.
    noise = {"LD_PRELOAD": "/nowhere/noise.so"}
    running = start(name, "sh", "-c", WAITING, "sh", gate.path, worker_environ=noise)
    running.until_output("at ", 2)
    gate.open()
    assert running.end() == 0, running.errors
    assert "/nowhere/noise.so" in running.errors + running.output
    running.assert_nothing_left()


@pytest.mark.parametrize(("name", "lines"), [("openmpi5", 10), ("openmpi4", 2000), ("mpich", 2000), ("impi", 2000)])
def test_stdin_reaches_the_first_rank(start: Start, name: str, lines: int, gate: Gate, tmp_path: Path) -> None:
    """Whatever the agent, Open MPI 5 loses what is more than a kilobyte or so, and the end (openpmix/prrte#2220)."""
    text = "".join(f"line {number}\n" for number in range(lines))
    (tmp_path / "stdin").write_text(text)
    first = f'head -n {lines}; echo "read"'
    program = f'if [ "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = 0 ]; then {first}; else echo "up" >&2; fi; {WAIT}'
    with open(tmp_path / "stdin", "rb") as stdin:
        running = start(name, "sh", "-c", program, "sh", gate.path, stdin=stdin)
        running.until_output("read\n")
        until(lambda: "up\n" in running.errors, "the other rank has started")
        assert running.output == f"{text}read\n"
        gate.open()
        assert running.end() == 0, running.errors
    running.assert_nothing_left()


@pytest.mark.parametrize("name", ALL)
def test_a_command_of_100_kb(start: Start, name: str, gate: Gate) -> None:
    program = f'echo "${{#3}} bytes"; {WAIT}'
    running = start(name, "sh", "-c", program, "sh", gate.path, "0", "x" * 100_000)
    running.until_output("100000 bytes", 2)
    gate.open()
    assert running.end() == 0, running.errors
    running.assert_nothing_left()


@pytest.mark.parametrize(("ranks", "code"), [(2, 0), (1, 3)])
@pytest.mark.parametrize("name", ATTACHED)
def test_a_lost_stream_does_not_end_the_job(start: Start, name: str, ranks: int, code: int, gate: Gate) -> None:
    """The hub asks the worker, waits for the daemon's end and takes the status that was kept there."""
    running = start(name, "sh", "-c", WAITING, "sh", gate.path, str(code), ranks=ranks)
    running.until_output("at ", ranks)
    assert running.job.cluster.cut_streams(running.job.workers[0]) == 1
    gate.open()
    assert running.end() == code, running.errors
    assert running.output.count("over") == ranks
    running.assert_nothing_left()
