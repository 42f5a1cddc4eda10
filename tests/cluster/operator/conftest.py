"""Fixtures of the tests of our operator.

`release`  the operator, installed by its chart with default values
`bare`     the same release while it is not installed, and no MPIJob is defined
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
from tests.cluster.operators.operator import TakenError, alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api
    from tests.cluster.operator.mpijob import MpiJob

_GONE_S = 120.0


# Of the package, so that kubeflow's operators, whose tests come later, find it gone.
@pytest.fixture(scope="package")
def cluster_without_operator(api: Api) -> Iterator[None]:
    """The cluster, with no operator for MPIJobs but the one under test."""
    try:
        with alone(api):
            yield
    except TakenError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def installable(api: Api, cluster_without_operator: None) -> Iterator[Release]:
    """The operator's release before it is installed, in a namespace that enforces *restricted*."""
    namespace = Namespace(api, f"mpi-agents-{os.getpid()}")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.call("post", api.path("Namespace", "v1"), {"metadata": {"name": namespace.name, "labels": labels}})
    release = Release(api, os.environ["KUBECONFIG"], namespace.name)
    release.remove_definition()
    try:
        yield release
    finally:
        release.remove_definition()
        namespace.delete("Namespace", namespace.name)
        namespace.wait_deleted("Namespace", namespace.name, _GONE_S)


@pytest.fixture(scope="package")
def installed(installable: Release) -> Iterator[Release]:
    """The operator's release, installed with default values, and uninstalled after all tests."""
    try:
        installable.notes = installable.install()
        yield installable
    finally:
        installable.uninstall()


@pytest.fixture
def release(installed: Release) -> Iterator[Release]:
    """The operator, running with default values; what it has printed is shown with a failure."""
    yield installed
    print(installed.log())


@pytest.fixture
def bare(installed: Release) -> Iterator[Release]:
    """The release uninstalled and the definition gone; all of it is there again after the test."""
    installed.uninstall()
    installed.remove_definition()
    yield installed
    if installed.helm.run("list", "--short").strip():
        installed.uninstall()
    installed.remove_definition()
    installed.install()


@pytest.fixture
def others(api: Api) -> Iterator[Namespace]:
    """The namespace of kubeflow's operator, which is no tenant's."""
    namespace = Namespace(api, "mpi-operator")
    api.call("post", api.path("Namespace", "v1"), {"metadata": {"name": namespace.name}})
    try:
        yield namespace
    finally:
        namespace.delete("Namespace", namespace.name)
        namespace.wait_deleted("Namespace", namespace.name, _GONE_S)


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
