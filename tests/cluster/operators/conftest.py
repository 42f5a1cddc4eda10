"""Fixtures of the tests under other operators.

`operator`  kubeflow's training-operator, and then its mpi-operator, running with our delivery image; or one of them:
            `@pytest.mark.parametrize("installed", ["training-operator"], indirect=True)`
`submit`    submit a job in the test's namespace: `running = submit(MpiJob(…))`
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.local.places import Places
from tests.cluster.operator.submitted import Submitted
from tests.cluster.operators.mpi_operator import MpiOperator, MpiOperatorV2
from tests.cluster.operators.mpijob import OURS
from tests.cluster.operators.operator import skip_if_taken
from tests.cluster.operators.training_operator import TrainingOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api, Namespace
    from tests.cluster.operators.mpijob import MpiJob
    from tests.cluster.operators.operator import Operator

OPERATORS: dict[str, type[Operator]] = {"training-operator": TrainingOperator, "mpi-operator": MpiOperator}
_KINDS: dict[str, type[Operator]] = {
    **OPERATORS,
    "mpi-operator 0.8.2": MpiOperatorV2,
}  # this one's jobs are others: a test asks for it


@pytest.fixture(scope="package", params=OPERATORS)
def installed(request: pytest.FixtureRequest, api: Api) -> Iterator[Operator]:
    """One of the operators, installed, and gone afterwards: they define the same kind."""
    skip_if_taken(api)
    kind = _KINDS[request.param]
    if not kind.program.can_be_had and not Places.of().is_cluster_of(os.environ["KUBECONFIG"]):
        pytest.skip("the operators are built by Go (https://go.dev), which only a cluster of our own wants anyway")
    kind.program.build(print)
    operator = kind(api, os.environ["KUBECONFIG"])
    try:
        operator.install()
        yield operator
    finally:
        operator.stop()


@pytest.fixture
def operator(installed: Operator) -> Iterator[Operator]:
    """The operator, running with our delivery image; what it prints meanwhile is shown with a failure."""
    installed.use(OURS)
    began = len(installed.log())
    yield installed
    print("\n".join(line for line in installed.log(began).splitlines() if "DEBUG" not in line)[-8000:])


@pytest.fixture
def submit(namespace: Namespace) -> Callable[[MpiJob], Submitted]:
    """Submit a job in the test's namespace."""
    return lambda job: Submitted(namespace, job).start()
