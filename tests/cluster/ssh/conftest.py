"""Fixtures of the tests of ssh jobs; the operator is installed as for the tests of `tests/cluster/operator`.

`submit`      submit a job in the test's namespace: `running = submit(ssh_job("mpich"))`
`submit_all`  for a module's fixture: submit jobs by name side by side, in a namespace of the module's own
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.conftest import (  # noqa: F401 (fixtures)
    installed,
    kubectl,
    release,
    submit,
)
from tests.cluster.operator.submitted import Submitted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.mpijob import MpiJob
    from tests.cluster.operator.release import Release

    SubmitAll = Callable[[Mapping[str, MpiJob], str], dict[str, Submitted]]


@pytest.fixture(scope="module")
def submit_all(installed: Release, new_namespace: Callable[[str], Namespace]) -> Iterator[SubmitAll]:  # noqa: F811
    """Submit jobs side by side in a namespace that enforces a Pod Security level; each gets its key as its name."""
    made: list[Namespace] = []

    def submit_them(jobs: Mapping[str, MpiJob], level: str = "baseline") -> dict[str, Submitted]:
        namespace = new_namespace(level)
        made.append(namespace)
        for name, job in jobs.items():
            job.body["metadata"]["name"] = name
        return {name: Submitted(namespace, job).start() for name, job in jobs.items()}

    yield submit_them
    for namespace in made:
        namespace.delete("Namespace", namespace.name)
