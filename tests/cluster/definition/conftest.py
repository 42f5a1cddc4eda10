"""Fixtures of the tests of the definition.

`definition`  what the cluster knows an MPIJob as: what the test before left
`jobs`        the jobs of the test's namespace
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.definition.defined import Definition, Jobs
from tests.cluster.operators.operator import skip_if_taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Api, Namespace


@pytest.fixture(scope="package")
def definition(api: Api) -> Iterator[Definition]:
    """The cluster's definition, which is there for these tests alone."""
    skip_if_taken(api)
    made = Definition(api)
    yield made
    made.remove()


@pytest.fixture
def jobs(api: Api, namespace: Namespace) -> Jobs:
    """The jobs of the test's namespace."""
    return Jobs(api, namespace.name)
