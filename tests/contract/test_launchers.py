"""Real launchers start real ranks through client and hub: one on each worker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from launching import MPI, gate, run_a_rank_on_every_worker, start

from agents.playground.launchers import PROGRAMS

if TYPE_CHECKING:
    from launching import Gate, Start

__all__ = ["gate", "start"]


@pytest.mark.parametrize("name", MPI)
@pytest.mark.parametrize("workers", [8])
def test_an_mpi_program_computes_across_workers(start: Start, name: str, workers: int) -> None:
    running = start(name, "python", f"{PROGRAMS}/pi.py", workers=workers)
    assert running.end() == 0, running.errors
    assert "right" in running.output
    ranks = set(re.findall(r"rank (\d+) of (\d+) on (\S+) has", running.output))
    assert {(number, size) for number, size, _host in ranks} == {(str(n), str(workers)) for n in range(workers)}
    if running.job.cluster.mounts:
        assert {host for *_, host in ranks} == set(running.job.workers)
    running.assert_nothing_left()


@pytest.mark.parametrize("name", MPI)
@pytest.mark.parametrize("workers", [2, 130])  # above 16, 64 and 128 a launcher may start workers by workers
def test_every_worker_gets_a_rank_from_the_launcher_itself(start: Start, gate: Gate, name: str, workers: int) -> None:
    run_a_rank_on_every_worker(start, gate, name, workers)
