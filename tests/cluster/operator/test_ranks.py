"""Ranks run where the hostfile says, for every MPI and either version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

LAUNCHERS = ["openmpi4", "openmpi5", "mpich", "intel"]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("example", LAUNCHERS)
def test_ranks_run_in_the_workers(submit: Submit, version: str, example: str) -> None:
    """A worker's slots are filled before the next one's."""
    running = submit(MpiJob(version, example, slots=2))
    assert running.verdict() == "Succeeded", running.output
    first, second = running.job.workers
    assert running.ranks() == {0: first, 1: first, 2: second, 3: second}
    assert running.namespace.warnings(running.job.name) == []


@pytest.mark.parametrize("name", ["0-starts-with-a-digit", "with.dots"])
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_name_that_no_service_can_have_runs(submit: Submit, version: str, name: str) -> None:
    running = submit(MpiJob(version, workers=2, name=name))
    assert running.verdict() == "Succeeded", running.output
    assert len(running.ranks()) == 2
