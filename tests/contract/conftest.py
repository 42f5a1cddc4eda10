"""The stand-in cluster of the tests that need no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from running import WORKERS

from agents.playground import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that are ready; a module that wants others has a fixture of its own."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        for name in WORKERS:
            cluster.create_pod(name, ready_after_s=0)
        yield cluster
