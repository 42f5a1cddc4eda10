"""What the client asks of an API server: no more than a large namespace bears."""

from __future__ import annotations

import os
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
Requests = list[tuple[str, str, Object]]
EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
LATE = "2999-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without an operator."""
    with Cluster(tmp_path_factory.mktemp("cluster"), runs_pods=False) as cluster:
        yield cluster


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """All requests of this process, as they are sent: method, path, query."""
    found: Requests = []
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


def test_events_are_asked_for_by_their_objects(cluster: Cluster, client: MpiClient, asked: Requests) -> None:
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


@pytest.fixture
def launcher(cluster: Cluster, client: MpiClient) -> Iterator[str]:
    """The launcher of the job `talks`."""
    uid, name = submitted(client, "talks", workers=0), "talks-launcher"
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "talks", "uid": uid, "controller": True}
    labels = {"training.kubeflow.org/job-name": "talks"}
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "mpi", "image": "example/mpi"}]}
    Client(cluster).create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.set_state(name, "ready")
    yield name
    client.delete("talks")
    cluster.delete_pod(name)


def says(cluster: Cluster, pod: str, text: str) -> None:
    """Have a container's log say this."""
    with open(os.path.join(cluster.pod_folder(pod), "mpi.log"), "w", encoding="utf-8", newline="") as file:
        file.write(text)


def test_a_line_without_an_end_is_not_held(cluster: Cluster, client: MpiClient, launcher: str) -> None:
    bar = "".join(f"{percent} % \u2588\r" for percent in range(50_000))
    says(cluster, launcher, f"begun\n{bar}done\n")
    first, *parts = client.logs("talks")
    assert first == "begun"
    assert "".join(parts) == f"{bar}done"
    assert max(map(len, parts)) <= 2 * 64 << 10
    says(cluster, launcher, "x" * 200_000)
    assert "".join(client.logs("talks")) == "x" * 200_000


@pytest.mark.parametrize(("width", "tails"), [(10, ["200"]), (2000, ["200", "5"])])
def test_the_output_that_is_searched_for_a_cause_is_bounded(
    cluster: Cluster, client: MpiClient, launcher: str, asked: Requests, width: int, tails: list[str]
) -> None:
    says(cluster, launcher, "".join(f"{number:{width}}\n" for number in range(300)))
    cluster.set_state(launcher, "failed")
    asked.clear()
    assert client.why("talks").lines[-1].endswith("299")
    queries = [query for _, path, query in asked if path == f"{PODS}/{launcher}/log"]
    assert [query["tailLines"] for query in queries] == tails
    assert {query["limitBytes"] for query in queries} == {str(256 << 10)}


def test_a_free_name_is_found_without_looking_at_pods(cluster: Cluster, client: MpiClient, asked: Requests) -> None:
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
