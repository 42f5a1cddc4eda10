"""Our own examples of T9k's jobs run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.images import under_repository
from tests.cluster.manifests import object_of
from tests.cluster.t9k.running import Running
from tests.cluster.t9k.t9kjob import T9kJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release

EXAMPLES = Path(__file__).parents[3] / "examples" / "t9k"
RUN = ("pi", "generation-3", "exec")  # what debug and pause show has tests of its own


def example(name: str) -> T9kJob:
    """An example under a name of its own."""
    job = T9kJob()
    job.body = object_of(EXAMPLES / f"{name}.yaml")
    job.body["metadata"]["name"] = name
    job.main["image"] = under_repository(job.main["image"])
    return job


@pytest.fixture(scope="module")
def running(installed: Release, new_namespace: Callable[[str], Namespace]) -> Iterator[dict[str, Running]]:
    """All of them, submitted at once."""
    namespace = new_namespace("baseline")
    yield {name: Running(namespace, example(name)).start() for name in RUN}
    namespace.delete("Namespace", namespace.name)


@pytest.mark.parametrize("name", RUN)
def test_two_ranks_run_in_each_worker(running: dict[str, Running], name: str) -> None:
    one = running[name]
    assert one.end() == "Succeeded", one.output
    assert one.ranks() == {rank: one.job.workers[rank // 2] for rank in range(4)}
    assert one.namespace.warnings(name) == []
