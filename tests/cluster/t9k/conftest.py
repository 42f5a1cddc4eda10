"""Fixtures of the tests of T9k's MPIJobs; the operator is installed as for the tests of `tests/cluster/operator`.

`run`  submit a T9k job in the test's namespace: `running = run(T9kJob("pi"))`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.conftest import (  # noqa: F401 (fixtures)
    installed,
    release,
    submit,
)
from tests.cluster.t9k.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release
    from tests.cluster.t9k.t9kjob import T9kJob


@pytest.fixture
def run(release: Release, namespace: Namespace) -> Callable[[T9kJob], Running]:  # noqa: F811
    """Submit a job in the test's namespace."""
    return lambda job: Running(namespace, job).start()
