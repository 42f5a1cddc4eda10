"""Fixtures of the tests of virtual clusters; the operator is installed as for the tests of `tests/cluster/operator`.

`cluster`  submit a virtual cluster in the test's namespace: `running = cluster(VirtualCluster())`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.conftest import installed, kubectl, release, submit
from tests.cluster.virtual.virtualcluster import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release
    from tests.cluster.virtual.virtualcluster import VirtualCluster

__all__ = ["cluster", "installed", "kubectl", "release", "submit"]


@pytest.fixture
def cluster(release: Release, namespace: Namespace) -> Callable[[VirtualCluster], Running]:  # noqa: F811
    """Submit a virtual cluster in the test's namespace."""

    def start(body: VirtualCluster) -> Running:
        running = Running(namespace, body)
        running.start()
        return running

    return start
