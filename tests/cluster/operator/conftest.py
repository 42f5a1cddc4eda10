"""Fixtures of the tests of our operator.

`release`  the operator, installed by its chart with default values
`bare`     the same release while it is not installed, and no MPIJob is defined; again there after the module's tests
`kubectl`  run a shell text in which kubectl means this cluster
`others`   the namespace where kubeflow's operator is, empty
`submit`   submit a job in the test's namespace: `running = submit(MpiJob("v1"))`
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cluster.kube import Namespace
from tests.cluster.local.places import Places
from tests.cluster.operator.release import Release
from tests.cluster.operator.submitted import Submitted
from tests.cluster.operators.operator import skip_if_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api
    from tests.cluster.operator.mpijob import MpiJob
    from tests.cluster.turns import Turns

NAMESPACE = "mpi-agents-tests"


@pytest.fixture(scope="session")
def installed(api: Api, turns: Turns) -> Iterator[Release]:
    """The operator's release in a namespace that enforces *restricted*, installed with default values.

    All processes share it. The first that needs it installs it, and the last that has used it uninstalls it.
    """
    release = Release(api, os.environ["KUBECONFIG"], NAMESPACE)
    with turns.release.locked():
        notes = turns.release.said()
        if notes is None:
            skip_if_taken(api)
            release.remove_everything()
            release.namespace.create("restricted")
            notes = release.install()
            turns.release.say(notes)
        release.notes = notes
    yield release
    with turns.release.locked():
        if turns.is_last_user():
            turns.release.say(None)
            release.remove_everything()


@pytest.fixture
def release(installed: Release) -> Iterator[Release]:
    """The operator, running with default values; what it has printed is shown with a failure."""
    yield installed
    print(installed.log())


@pytest.fixture(scope="module")
def _installed_again(installed: Release) -> Iterator[None]:
    """All of the release is there again after the module's tests."""
    yield
    installed.strip()
    installed.install()


@pytest.fixture
def bare(installed: Release, _installed_again: None) -> Release:
    """The release uninstalled and the definition gone."""
    installed.strip()
    return installed


@pytest.fixture
def others(api: Api) -> Iterator[Namespace]:
    """The namespace of kubeflow's operator, which is no tenant's."""
    namespace = Namespace(api, "mpi-operator")
    namespace.create()
    try:
        yield namespace
    finally:
        api.remove(namespace.path("Namespace", namespace.name))


@pytest.fixture
def submit(release: Release, namespace: Namespace) -> Callable[[MpiJob], Submitted]:
    """Submit a job in the test's namespace."""
    return lambda job: Submitted(namespace, job).start()


@pytest.fixture(scope="session")
def kubectl() -> Callable[[str], str]:
    """Run a shell text in which kubectl means this cluster, and return what it prints."""
    path = f"{Places.of().bin}:{os.environ['PATH']}"

    def run(text: str) -> str:
        command, env = ["bash", "-euo", "pipefail", "-c", text], {**os.environ, "PATH": path}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
