"""Moving from kubeflow's operators as docs/moving.md has it: what runs meanwhile ends untouched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.submitted import Submitted
from tests.cluster.operators.mpi_operator import MpiOperator
from tests.cluster.operators.mpijob import OURS
from tests.cluster.operators.mpijob import MpiJob as TheirJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release


@pytest.fixture
def theirs(bare: Release) -> Iterator[MpiOperator]:
    """kubeflow's mpi-operator of v1, with its own definition."""
    MpiOperator.program.build(print)
    operator = MpiOperator(bare.api, os.environ["KUBECONFIG"])
    try:
        operator.install()
        operator.use(OURS)
        yield operator
    finally:
        operator.stop()


@pytest.mark.pod_security("baseline")
def test_a_job_that_runs_during_the_switch_ends_untouched(
    bare: Release, theirs: MpiOperator, namespace: Namespace
) -> None:
    running = Submitted(namespace, TheirJob(theirs.example, "openmpi4", "pi", "30")).start()
    running.until_output("rank ", times=2)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in namespace.pods()}

    theirs.pause()
    bare.install(None, "--take-ownership")
    after = Submitted(namespace, MpiJob("v1", name="after")).start()
    assert after.verdict() == "Succeeded", after.output

    assert namespace.wait_exit(running.launcher, running.job.main["name"]) == 0
    assert running.ranks() == dict(enumerate(running.job.workers))
    left = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in namespace.pods()}
    assert before.items() <= left.items()
    found = namespace.api.call("get", f"{after.path}/{running.job.name}")
    writers = {one["manager"] for one in found["metadata"]["managedFields"] if one.get("subresource") == "status"}
    assert "mpi-agents" not in writers
