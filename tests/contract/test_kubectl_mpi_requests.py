"""What the client asks of an API server: no more than a large namespace bears."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from agents.client import MpiClient
from agents.client.connection import Connection
from agents.kubectl_mpi.cli import command
from agents.playground.client import Client
from agents.playground.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
LATE = "2999-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without an operator."""
    with Cluster(tmp_path_factory.mktemp("cluster"), runs_pods=False) as cluster:
        yield cluster


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Object]]:
    """All requests of this process, as they are sent: method, path, query."""
    found: list[tuple[str, str, Object]] = []
    send = Connection._send

    def recorded(self: Connection, method: str, path: str, query: Object, *more: Any, **options: Any) -> Any:
        found.append((method, path, query))
        return send(self, method, path, query, *more, **options)

    monkeypatch.setattr(Connection, "_send", recorded)
    return found


@pytest.fixture
def client(cluster: Cluster) -> Iterator[MpiClient]:
    with MpiClient(kubeconfig=cluster.kubeconfig(), namespace="default") as client:
        yield client


def submitted(client: MpiClient, name: str, workers: int = 1, **policy: Any) -> str:
    """Create a job that nobody runs; return its uid."""
    template = {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}
    roles = {"Launcher": {"template": template}, "Worker": {"replicas": workers, "template": template}}
    spec = {"mpiReplicaSpecs": roles, "runPolicy": policy}
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}
    return client.submit(manifest).uid


def record(cluster: Cluster, kind: str, name: str, uid: str = "") -> None:
    """Write an event about an object."""
    metadata = {"name": f"{kind.lower()}-{name}-{uid or 'none'}", "namespace": "default"}
    about = {"kind": kind, "name": name, "uid": uid, "namespace": "default"}
    event = {"metadata": metadata, "involvedObject": about, "reason": "X", "message": "x", "lastTimestamp": LATE}
    Client(cluster).create({"apiVersion": "v1", "kind": "Event", **event})


def test_events_are_asked_for_by_their_objects(
    cluster: Cluster, client: MpiClient, asked: list[tuple[str, str, Object]]
) -> None:
    uid = submitted(client, "tells", workers=9)
    record(cluster, "MPIJob", "tells", uid)
    record(cluster, "MPIJob", "tells", "of-another-job-of-this-name")
    for kind, name in (("Job", "tells-launcher"), ("Pod", "tells-launcher"), ("Pod", "tells-worker-0")):
        record(cluster, kind, name)
    record(cluster, "Pod", "other")
    asked.clear()
    assert {(one.object, one.message) for one in client.events("tells")} == {
        ("MPIJob/tells", "x"),
        ("Job/tells-launcher", "x"),
        ("Pod/tells-launcher", "x"),
        ("Pod/tells-worker-0", "x"),
    }
    queries = [query for _, path, query in asked if path == EVENTS]
    workers = [f"involvedObject.name=tells-worker-{index}" for index in range(5)]
    assert [query["fieldSelector"] for query in queries] == [
        "involvedObject.name=tells",
        "involvedObject.name=tells-launcher",
        *workers,
    ]


def test_a_free_name_is_found_without_looking_at_pods(
    cluster: Cluster, client: MpiClient, asked: list[tuple[str, str, Object]]
) -> None:
    submitted(client, "over")
    job = "/apis/kubeflow.org/v1/namespaces/default/mpijobs/over"
    ended = {"conditions": [{"type": "Failed", "status": "True"}]}
    Connection.load(cluster.kubeconfig(), None).patch(f"{job}/status", {"status": ended})
    Connection.load(cluster.kubeconfig(), None).patch(job, {"spec": {"runPolicy": {"backoffLimit": 1}}})
    asked.clear()
    found = CliRunner().invoke(command, ["rerun", "over", "--kubeconfig", cluster.kubeconfig()])
    assert found.stdout == "mpijob.kubeflow.org/over-2 created\n"
    assert "the spec of over was changed since it was made (by you, a queue or a pause)" in found.stderr
    selectors = {str(query["labelSelector"]) for _, path, query in asked if path == PODS}
    assert selectors == {"training.kubeflow.org/job-name=over", "mpi-job-name=over"}
