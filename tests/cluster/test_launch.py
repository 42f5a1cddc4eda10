"""Real launchers start real ranks in real pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

MPI = ["openmpi4"]


@pytest.mark.parametrize("example", MPI)
def test_ranks_run_where_the_hostfile_says(start: Start, example: str) -> None:
    running = start(Job(example).run("pi"))
    assert running.end() == 0, running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
    assert "pi is approximately 3.14159265" in running.output
    assert running.sessions_by_host() == dict.fromkeys(running.job.workers, 1)
    running.assert_nothing_left()
