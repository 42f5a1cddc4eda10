"""`kubectl mpi` on jobs of kubeflow's own operators, where nothing of ours is: as for our own jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.explained import BrokenJobs, kinds_of
from tests.cluster.healthy import Commands
from tests.cluster.operators.mpijob import KUBECTL
from tests.cluster.said import MPI_OPERATOR, TRAINING_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.kube import Namespace
    from tests.cluster.operators.operator import Operator

_INSTALLED = {TRAINING_OPERATOR: "training-operator", MPI_OPERATOR: "mpi-operator 0.8.2"}
pytestmark = pytest.mark.pod_security("baseline")


@pytest.fixture(scope="module")
def jobs(installed: Operator, new_namespace: Callable[[str], Namespace]) -> Callable[[str], BrokenJobs]:
    """All broken jobs of an operator: submitted when they are asked for the first time."""
    made: dict[str, BrokenJobs] = {}

    def jobs_of(operator: str) -> BrokenJobs:
        if operator not in made:
            installed.use(KUBECTL)
            made[operator] = BrokenJobs(operator, new_namespace)
        return made[operator]

    return jobs_of


@pytest.mark.parametrize(
    ("installed", "by", "kind"),
    [(_INSTALLED[one], one, kind) for one in _INSTALLED for kind in kinds_of(one)],
    indirect=["installed"],
)
def test_why_of_a_broken_job(jobs: Callable[[str], BrokenJobs], by: str, kind: str) -> None:
    jobs(by).explanation(kind)


@pytest.mark.parametrize(
    ("installed", "by"), [*zip(_INSTALLED.values(), _INSTALLED, strict=True)], indirect=["installed"]
)
def test_each_command_on_a_healthy_job(installed: Operator, namespace: Namespace, by: str, tmp_path: Path) -> None:
    installed.use(KUBECTL)
    Commands(namespace, tmp_path).on_a_healthy_job(by)
