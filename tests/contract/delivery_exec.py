"""Delivery by exec as a process of its own, against the stand-in API server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from delivering import Delivery

from agents.playground.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as started:
        yield started


@pytest.fixture
def launcher(tmp_path: Path, cluster: Cluster) -> Iterator[Launcher]:
    (tmp_path / "launcher").mkdir()
    cluster.create_pod("pi-launcher", labels=LABELS, state="initializing")
    made = Launcher(tmp_path / "launcher", cluster)
    yield made
    made.close()
