"""As test_launchers.py, for Horovod: a Python process of its own for each rank, so that it takes longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from launching import gate, run_a_rank_on_every_worker, start

if TYPE_CHECKING:
    from launching import Gate, Start

__all__ = ["gate", "start"]


@pytest.mark.parametrize("workers", [2, 70])
def test_every_worker_gets_a_rank_from_the_launcher_itself(start: Start, gate: Gate, workers: int) -> None:
    run_a_rank_on_every_worker(start, gate, "horovod", workers)
