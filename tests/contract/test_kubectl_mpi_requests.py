"""What the client asks of an API server: no more than a large namespace bears."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest
from click.testing import CliRunner
from urllib3 import HTTPConnectionPool

from agents.client import MpiClient, RefusedError, State, manifests
from agents.client.connection import Connection
from agents.kubectl_mpi.cli import command
from agents.playground.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agents.kube.kinds import Kind

Object = dict[str, Any]
EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
LATE = "2999-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without an operator."""
    with Cluster(tmp_path_factory.mktemp("cluster"), runs_pods=False) as cluster:
        yield cluster


class Requests(list[tuple[str, str, Object]]):
    """All requests of this process, as they are sent: method, path, query."""

    def __init__(self) -> None:
        super().__init__()
        self.at_watches: list[Callable[[], object]] = []  # what happens when a watch begins: each once

    def of(self, path: str) -> list[Object]:
        """The queries for a path."""
        return [query for _, asked, query in self if asked == path]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Requests:
    found = Requests()
    send = HTTPConnectionPool.urlopen

    def recorded(self: HTTPConnectionPool, method: str, url: str, *more: Any, **options: Any) -> Any:
        path, _, asked = url.partition("?")
        query = dict(parse_qsl(asked))
        found.append((method, path, query))
        assert len(found) < 60, "it asks on and on"
        if "watch" in query and found.at_watches:
            found.at_watches.pop(0)()
        return send(self, method, url, *more, **options)

    monkeypatch.setattr(HTTPConnectionPool, "urlopen", recorded)
    return found


@pytest.fixture
def client(cluster: Cluster) -> Iterator[MpiClient]:
    with MpiClient(kubeconfig=cluster.kubeconfig(), namespace="default") as client:
        yield client


def submitted(client: MpiClient, name: str, workers: int = 1, **policy: Any) -> str:
    """Create a job that nobody runs; return its uid."""
    manifest = plain(name, workers)
    manifest["spec"]["runPolicy"] = policy
    return client.submit(manifest).uid


def plain(name: str, workers: int = 1) -> Object:
    template = {"spec": {"containers": [{"name": "mpi", "image": "example/mpi"}]}}
    roles = {"Launcher": {"template": template}, "Worker": {"replicas": workers, "template": template}}
    spec = {"mpiReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def change(cluster: Cluster, name: str, patch: Object, subresource: str = "") -> None:
    path = f"/apis/kubeflow.org/v1/namespaces/default/mpijobs/{name}{subresource}"
    Connection.load(cluster.kubeconfig(), None).patch(path, patch)


def fail(cluster: Cluster, name: str) -> None:
    change(cluster, name, {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "/status")


def record(cluster: Cluster, kind: str, name: str, uid: str = "") -> None:
    """Write an event about an object."""
    metadata = {"name": f"{kind.lower()}-{name}-{uid or 'none'}", "namespace": "default"}
    about = {"kind": kind, "name": name, "uid": uid, "namespace": "default"}
    event = {"metadata": metadata, "involvedObject": about, "reason": "X", "message": "x", "lastTimestamp": LATE}
    cluster.create({"apiVersion": "v1", "kind": "Event", **event})


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
    workers = [f"involvedObject.name=tells-worker-{index}" for index in range(5)]
    assert [query["fieldSelector"] for query in asked.of(EVENTS)] == [
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
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.set_state(name, "ready")
    yield name
    cluster.delete_pod(name)  # before its job, whose end would have it collected
    client.delete("talks")


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
    queries = asked.of(f"{PODS}/{launcher}/log")
    assert [query["tailLines"] for query in queries] == tails
    assert {query["limitBytes"] for query in queries} == {str(256 << 10)}


def test_a_free_name_is_found_without_looking_at_pods(cluster: Cluster, client: MpiClient, asked: Requests) -> None:
    submitted(client, "over")
    change(cluster, "over", {"spec": {"runPolicy": {"backoffLimit": 1}}})
    fail(cluster, "over")
    asked.clear()
    found = CliRunner().invoke(command, ["rerun", "over", "--kubeconfig", cluster.kubeconfig()])
    assert found.stdout == "mpijob.kubeflow.org/over-2 created\n"
    assert "the spec of over was edited after its creation" in found.stderr
    selectors = {str(query["labelSelector"]) for query in asked.of(PODS)}
    assert selectors == {"training.kubeflow.org/job-name=over", "mpi-job-name=over"}


def test_a_job_that_is_followed_is_watched(
    cluster: Cluster, client: MpiClient, asked: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods are not looked at while it is suspended, and otherwise from the API server's memory until it ends."""
    monkeypatch.setattr("agents.client.diagnosis.UNSEEN_S", 3600.0)
    submitted(client, "waits", suspend=True)
    asked.at_watches += [
        lambda: change(cluster, "waits", {"metadata": {"annotations": {"a": "b"}}}),
        lambda: change(cluster, "waits", {"spec": {"runPolicy": {"suspend": False}}}),
        lambda: fail(cluster, "waits"),
    ]
    told: list[str] = []
    assert client.follow("waits", report=told.append, output=told.append).state is State.FAILED
    assert told == ["waits is suspended and has no pods.", "waits was just created."]
    assert [query.get("resourceVersion") for query in asked.of(PODS)] == [None, None, "0", "0", None, None]


def test_less_and_less_is_asked_while_nothing_changes(cluster: Cluster, client: MpiClient, asked: Requests) -> None:
    submitted(client, "lasts")
    asked.at_watches += [lambda: None, lambda: None, lambda: fail(cluster, "lasts")]
    client.follow("lasts", report=lambda _line: None, output=lambda _line: None)
    assert [query["timeoutSeconds"] for _, _, query in asked if "watch" in query] == ["1", "2", "4"]


def test_a_job_is_followed_without_the_right_to_watch(cluster: Cluster, client: MpiClient, asked: Requests) -> None:
    submitted(client, "looks")
    asked.at_watches.append(lambda: fail(cluster, "looks"))
    token = cluster.token("get mpijobs", "list pods")
    with MpiClient(kubeconfig=cluster.kubeconfig(token), namespace="default") as reader:
        assert reader.follow("looks", report=lambda _line: None, output=lambda _line: None).state is State.FAILED


def test_what_a_job_is_and_how_its_pods_are_labelled_is_remembered(
    cluster: Cluster, client: MpiClient, launcher: str, asked: Requests
) -> None:
    pod = f"{PODS}/{launcher}"
    Connection.load(cluster.kubeconfig(), None).patch(
        pod, {"metadata": {"labels": {"training.kubeflow.org/job-name": None, "mpi-job-name": "talks"}}}
    )
    spec = {"worker": {"replicas": 1, "cmd": ["x"], "template": {"spec": {"containers": [{"name": "mpi-worker"}]}}}}
    t9k = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob", "metadata": {"name": "t9k"}, "spec": spec}
    cluster.create(t9k)
    asked.clear()
    for _ in range(2):
        assert len(client.get("talks").launchers) == 1
    labels = [query["labelSelector"].partition("=")[0] for query in asked.of(PODS)]
    assert labels == ["training.kubeflow.org/job-name", "mpi-job-name", "mpi-job-name"]
    asked.clear()
    for _ in range(2):
        client.resource("t9k")
    versions = [path.split("/")[2:4] for _, path, _ in asked]
    assert [one for one in versions if one[0] != "kubeflow.org"] == 2 * [["batch.tensorstack.dev", "v1beta1"]]
    assert len(versions) == 4


def test_only_the_first_page_says_how_old_a_list_may_be(
    cluster: Cluster, launcher: str, asked: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server refuses the two together: what continues a list has its version."""
    monkeypatch.setattr("agents.client.connection.PAGE", 1)
    client = MpiClient(kubeconfig=cluster.kubeconfig(), namespace="default")
    pod = cluster.request("GET", f"{PODS}/{launcher}")
    metadata = {key: pod["metadata"][key] for key in ("labels", "ownerReferences")} | {"name": "talks-launcher-2"}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})
    known = client.facts("talks")
    asked.clear()
    assert len(client.facts("talks", known).launchers) == 2
    cluster.delete_pod("talks-launcher-2")
    assert [("continue" in query, query.get("resourceVersion")) for query in asked.of(PODS)] == [
        (False, "0"),
        (True, None),
    ]
    client.close()


def test_jobs_that_are_run_again_at_once_keep_their_files(
    cluster: Cluster, client: MpiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.submit(plain("first"), folder=str(tmp_path))
    first, create = client.resource("first"), Connection.create

    def with_another(self: Connection, kind: Kind, namespace: str, body: Object, **query: str) -> Object:
        made = create(self, kind, namespace, body, **query)
        if made["metadata"]["name"] == "second":
            client.submit(manifests.again(first, "third"))
        return made

    monkeypatch.setattr(Connection, "create", with_another)
    with pytest.raises(RefusedError, match="modified"):
        client.submit(manifests.again(first, "second"))
    files = Connection.load(cluster.kubeconfig(), None).get("/api/v1/namespaces/default/configmaps/first-files")
    assert [one["name"] for one in files["metadata"]["ownerReferences"]] == ["first", "third"]
    assert "second" not in client.names()
