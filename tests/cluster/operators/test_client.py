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

_TRAINING = pytest.mark.parametrize("installed", ["training-operator"], indirect=True)
_MPI = pytest.mark.parametrize("installed", ["mpi-operator 0.8.2"], indirect=True)
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


@pytest.mark.release
@_TRAINING
@pytest.mark.parametrize("kind", kinds_of(TRAINING_OPERATOR))
def test_why_of_a_broken_job_of_the_training_operator(jobs: Callable[[str], BrokenJobs], kind: str) -> None:
    jobs(TRAINING_OPERATOR).explanation(kind)


@pytest.mark.release
@_TRAINING
def test_each_command_on_a_job_of_the_training_operator(
    installed: Operator, namespace: Namespace, tmp_path: Path
) -> None:
    installed.use(KUBECTL)
    Commands(namespace, tmp_path).on_a_healthy_job(TRAINING_OPERATOR)


@pytest.mark.release
@_MPI
@pytest.mark.parametrize("kind", kinds_of(MPI_OPERATOR))
def test_why_of_a_broken_job_of_the_mpi_operator(jobs: Callable[[str], BrokenJobs], kind: str) -> None:
    jobs(MPI_OPERATOR).explanation(kind)


@_MPI
def test_each_command_on_a_job_of_the_mpi_operator(installed: Operator, namespace: Namespace, tmp_path: Path) -> None:
    installed.use(KUBECTL)
    Commands(namespace, tmp_path).on_a_healthy_job(MPI_OPERATOR)
