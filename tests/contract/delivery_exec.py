"""Delivery by exec as a process of its own, against the stand-in API server."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest
from delivering import Delivery

from agents.playground.cluster import Cluster
from agents.playground.server_process import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from agents.playground.cluster import Object
    from agents.playground.pods import Pod

LABELS = {"training.kubeflow.org/job-name": "pi"}


class Launcher(Delivery):
    """With the client to copy, and workers in a cluster."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        tools = folder / "tools"
        tools.mkdir()
        (tools / "rshagent").write_text("#!/bin/sh\n")
        (tools / "rshagent").chmod(0o755)
        self.environ["MPI_AGENT_TOOLS"] = str(tools)

    def start(self, *arguments: str, environ: Mapping[str, str] | None = None, code: str | None = None) -> None:
        """Start delivery, in the cluster unless `environ` says otherwise."""
        program = ["-m", "delivery"] if code is None else ["-c", code]
        self.call([sys.executable, *program, *arguments], self.cluster.environ() if environ is None else environ)

    def run(self, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
        self.start(*arguments, environ=environ)
        return self.end()

    def workers(self, count: int, **fields: Any) -> list[str]:
        """Create workers and a hostfile that names them."""
        names = self.cluster.create_workers(count, "pi-worker", labels=LABELS, **fields)
        self.hostfile.write_text("".join(f"{name} slots=1\n" for name in names))
        return names


class Shared(Cluster):
    """A cluster for all tests of a module, as its start takes longer than most of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._created: set[str] = set()

    def create_pod(self, pod: Pod | str, **fields: Any) -> Object:
        created = super().create_pod(pod, **fields)
        self._created.add(created["metadata"]["name"])
        return created

    def empty(self) -> None:
        """Have no pods, faults and counts."""
        self.clear_faults()
        for name in self._created:
            with contextlib.suppress(ClusterError):  # the test has deleted it
                self.delete_pod(name)
        self._created.clear()
        self.reset_stats()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Shared(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def cluster(shared: Shared) -> Iterator[Cluster]:
    yield shared
    shared.empty()


@pytest.fixture
def launcher(tmp_path: Path, cluster: Cluster) -> Iterator[Launcher]:
    (tmp_path / "launcher").mkdir()
    cluster.create_pod("pi-launcher", labels=LABELS, state="initializing")
    made = Launcher(tmp_path / "launcher", cluster)
    yield made
    made.close()
