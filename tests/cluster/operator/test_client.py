"""`kubectl mpi` on our jobs over exec and ssh: each command on a healthy one, `why` on all kinds of broken ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.explained import BrokenJobs, kinds_of
from tests.cluster.healthy import Commands
from tests.cluster.said import EXEC, SSH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release


@pytest.fixture(scope="module")
def jobs(installed: Release, new_namespace: Callable[[str], Namespace]) -> Callable[[str], BrokenJobs]:
    """All broken jobs by a transport: submitted when they are asked for the first time."""
    made: dict[str, BrokenJobs] = {}

    def jobs_by(transport: str) -> BrokenJobs:
        if transport not in made:
            made[transport] = BrokenJobs(transport, new_namespace)
        return made[transport]

    return jobs_by


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds_of(EXEC))
def test_why_of_a_broken_job_by_exec(jobs: Callable[[str], BrokenJobs], kind: str) -> None:
    jobs(EXEC).explanation(kind)


@pytest.mark.release
@pytest.mark.parametrize("kind", kinds_of(SSH))
def test_why_of_a_broken_job_by_ssh(jobs: Callable[[str], BrokenJobs], kind: str) -> None:
    jobs(SSH).explanation(kind)


@pytest.mark.pod_security("baseline")
@pytest.mark.parametrize("transport", [EXEC, SSH])
def test_each_command_on_a_healthy_job(release: Release, namespace: Namespace, transport: str, tmp_path: Path) -> None:
    Commands(namespace, tmp_path).on_a_healthy_job(transport)
