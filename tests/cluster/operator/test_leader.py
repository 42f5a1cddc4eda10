"""Two replicas: one leads, the other takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.kube import until
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

pytestmark = pytest.mark.alone
TAKEN_OVER_S = 30.0  # a killed leader's lease of 15 s, seen and seen to be over by looks of 2 s, on a busy node


@pytest.fixture
def pair(release: Release) -> Iterator[Release]:
    """The release with two replicas."""
    release.upgrade({"replicas": 2})
    yield release
    release.upgrade()


def leading(release: Release) -> str:
    """The leader's pod; waits until there is one that lives."""

    def found() -> str:
        holder = release.leader()
        return next((name for pod in release.pods() if (name := str(pod["metadata"]["name"])) in holder), "")

    return until("a pod that lives leads", found, TAKEN_OVER_S)


@pytest.mark.parametrize("grace_s", [None, 0], ids=["told to end", "killed"])
def test_the_other_takes_over(pair: Release, submit: Submit, grace_s: int | None) -> None:
    first = leading(pair)
    running = submit(MpiJob("v2beta1"))
    pair.namespace.delete("Pod", first, grace_s=grace_s)
    until("the other leads", lambda: leading(pair) != first, TAKEN_OVER_S)
    late = submit(MpiJob("v1", name="late"))
    assert running.verdict() == "Succeeded", running.output
    assert late.verdict() == "Succeeded", late.output
    pair.until_ready()
    assert [value for name, _, value in pair.metrics() if name == "mpi_operator_is_leader"].count(1.0) == 1
