"""The stand-in clusters that many tests need, and what is left out where there is no sshd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from running import WORKERS
from ssh_server import NO_SSHD
from user_shell import Shell

from agents.playground import Cluster
from agents.playground.operated import Operated

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that are ready; a module that wants others has a fixture of its own."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        for name in WORKERS:
            cluster.create_pod(name)
        yield cluster


@pytest.fixture(scope="module")
def operated() -> Iterator[Operated]:
    """A cluster with the real operator, whose pods have Open MPI."""
    with Operated(lambda _line: None) as operated:
        operated.install("OpenMPI")
        operated.set_up()
        yield operated


@pytest.fixture
def shell(operated: Operated) -> Shell:
    return Shell(operated.cluster.kubeconfig())


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without our operator."""
    with Cluster(tmp_path_factory.mktemp("foreign"), runs_pods=False) as cluster:
        yield cluster


def pytest_report_header() -> list[str]:
    return [NO_SSHD] if NO_SSHD else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say once that there is no sshd, and not by a skip for each test."""
    if NO_SSHD:
        without = [
            one for one in items if NO_SSHD in (mark.kwargs.get("reason") for mark in one.iter_markers("skipif"))
        ]
        config.hook.pytest_deselected(items=without)
        items[:] = [one for one in items if one not in without]
