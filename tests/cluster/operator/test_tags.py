"""`spec.tagOutput`: the images' own mpirun names the rank of each line, by its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agents.client.tags import RankOutput
from agents.job.model import Implementation
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted


@pytest.mark.parametrize(
    ("example", "implementation"), [("openmpi4", Implementation.OPEN_MPI), ("mpich", Implementation.MPICH)]
)
def test_each_rank_s_lines_are_found(
    submit: Callable[[MpiJob], Submitted], example: str, implementation: Implementation
) -> None:
    running = submit(MpiJob("v2beta1", example).annotate(tag_output="true"))
    assert running.verdict() == "Succeeded", running.output
    for rank in range(2):
        [line] = [one for one in RankOutput(rank, implementation).lines(running.output.splitlines()) if "rank" in one]
        assert line.startswith(f"rank {rank} of 2 on ")
