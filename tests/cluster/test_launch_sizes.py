"""On many workers: the same ones, to which more are added, and a launcher of its own for each size."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from tests.cluster.jobs import Job
from tests.cluster.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Namespace

# A daemon of a tree has 64 below it. Fewer workers are in test_launch, and 130 of each launcher in the contract tests.
# Here a hundred sessions begin at once, and end at once (Open MPI 4) or with the job (5).
SIZES = [("openmpi4", 16), ("openmpi4", 100), ("openmpi5", 16), ("openmpi5", 100), ("mpich", 16), ("intel", 16)]
START_S = 240.0


class Fleet:
    """Workers of one launcher's image, as many as a test needs."""

    def __init__(self, namespace: Namespace, example: str) -> None:
        self.namespace, self._example = namespace, example
        job = Job(example, workers=1)
        namespace.apply(one for one in job.objects if one["kind"] != "Pod")

    def start(self, workers: int) -> Running:
        """Start a job on so many workers; those that are missing are added meanwhile."""
        job = Job(self._example, workers=workers).run("pi")
        self.namespace.patch("StatefulSet", f"{job.name}-worker", {"spec": {"replicas": workers}}, "apps/v1")
        job.objects = renamed(job, f"-{workers}")
        job.launcher_name += f"-{workers}"
        return Running(self.namespace, job).start()


def renamed(job: Job, suffix: str) -> list[dict[str, object]]:
    """The launcher and what is about it alone, under names of their own; and the workers, unchanged."""
    own = copy.deepcopy([one for one in job.objects if one["kind"] in ("Role", "RoleBinding", "ConfigMap", "Pod")])
    for one in own:
        one["metadata"]["name"] += suffix
        if one["kind"] == "RoleBinding":
            one["roleRef"]["name"] += suffix
        if one["kind"] == "Pod":
            volumes = one["spec"]["volumes"]
            next(volume["configMap"] for volume in volumes if "configMap" in volume)["name"] += suffix
    return own


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, new_namespace: Callable[[str], Namespace]) -> Iterator[Fleet]:
    """The fleet of a launcher. The next one begins when all of its pods are gone."""
    namespace = new_namespace("restricted")
    yield Fleet(namespace, request.param)
    namespace.delete("Namespace", namespace.name)
    namespace.wait_deleted("Namespace", namespace.name, START_S)


@pytest.mark.release
@pytest.mark.timeout(4 * START_S)
@pytest.mark.parametrize(("fleet", "workers"), SIZES, indirect=["fleet"], scope="module")
def test_every_worker_gets_a_rank_from_the_launcher_itself(fleet: Fleet, workers: int) -> None:
    running = fleet.start(workers)
    running.until_started(START_S)
    assert running.end(START_S) == 0, running.output
    assert running.ranks() == {rank: f"pi-worker-{rank}" for rank in range(workers)}
    # One call a worker, all from the launcher: no tree.
    assert running.sessions_by_host() == {f"pi-worker-{number}": 1 for number in range(workers)}
