"""Requests to a real socket: what failures mean, how lists and watches are read, and whose token is sent."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import Configuration
from objects_api import ObjectsApi

from agents.kube.access import Access, AccessError, load
from agents.kube.api import Api
from agents.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    GoneError,
    NotFoundError,
    RejectedError,
    TooManyError,
    UnavailableError,
)
from agents.kube.kinds import CONFIG_MAP, MPI_JOB_V1, POD
from agents.operator.metrics import Metrics
from tests.objects import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.objects import Request

PATIENCE_S = 60.0


def requests(metrics: Metrics, verb: str, code: str) -> float:
    labels = {"verb": verb, "code": code}
    return metrics.registry.get_sample_value("mpi_operator_api_requests_total", labels) or 0.0


@pytest.fixture
def server() -> Iterator[ObjectsApi]:
    server = ObjectsApi()
    yield server
    server.close()


def client(server: ObjectsApi, configuration: Configuration | None = None) -> tuple[Api, Metrics]:
    configuration = configuration or Configuration()
    configuration.host = f"http://127.0.0.1:{server.port}"
    metrics = Metrics()
    return Api(Access(configuration, 2), agent="mpi-operator", manager="mpi-agents", answered=metrics.answered), metrics


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "ü"}}


@pytest.mark.parametrize(
    ("code", "reason", "retry_after", "error"),
    [
        (403, "Forbidden", "", RejectedError),
        (422, "Invalid", "", RejectedError),
        (404, "NotFound", "", NotFoundError),
        (409, "AlreadyExists", "", AlreadyExistsError),
        (409, "Conflict", "", ConflictError),
        (410, "Expired", "", GoneError),
        (429, "TooManyRequests", "3", TooManyError),
        (503, "ServiceUnavailable", "3", TooManyError),
        (503, "ServiceUnavailable", "", UnavailableError),
        (500, "InternalError", "", UnavailableError),
        (401, "Unauthorized", "", UnavailableError),
    ],
)
def test_answers_that_are_failures(
    server: ObjectsApi, code: int, reason: str, retry_after: str, error: type[ApiError]
) -> None:
    def fault(_request: Request) -> bool:
        raise Failure(code, reason, "the API server's words", retry_after)

    server.fault = fault
    api, metrics = client(server)
    with pytest.raises(ApiError, match="the API server's words") as caught:
        api.create(CONFIG_MAP, "ns", config_map("a"))
    assert type(caught.value) is error
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.retry_after_s == (3.0 if retry_after else None)
    assert requests(metrics, "create", str(code)) == 1


def test_a_dry_run_asks_for_the_version_and_writes_nothing(server: ObjectsApi) -> None:
    api, _ = client(server)
    made = api.create(MPI_JOB_V1, "ns", {"metadata": {"name": "pi"}, "spec": {}})
    path = MPI_JOB_V1.path("ns", "pi", "status")
    api.replace(path, {"metadata": made["metadata"]}, is_dry=True)
    assert api.get(MPI_JOB_V1.path("ns", "pi")) == made
    status = {"conditions": [], "replicaStatuses": {}, "readyWorkers": "0/2"}
    changed = api.replace(path, {"metadata": made["metadata"], "status": status})
    with pytest.raises(ConflictError):
        api.replace(path, {"metadata": made["metadata"]}, is_dry=True)
    assert api.get(MPI_JOB_V1.path("ns", "pi")) == changed


def test_no_answer_is_a_failure_of_its_own(server: ObjectsApi) -> None:
    server.fault = lambda _request: False
    api, metrics = client(server)
    with pytest.raises(UnavailableError, match="no answer from http"):
        api.get("/api/v1/namespaces/ns/configmaps/a")
    server.stop()
    with pytest.raises(UnavailableError, match="Connection refused"):
        api.get("/api/v1/namespaces/ns/configmaps/a")
    with pytest.raises(UnavailableError, match="Connection refused"):
        api.watch("/api/v1/pods", version="1", timeout_s=5)
    assert requests(metrics, "get", "0") == 2
    assert requests(metrics, "watch", "0") == 1


def test_what_is_written_is_answered(server: ObjectsApi) -> None:
    api, metrics = client(server)
    made = api.create(CONFIG_MAP, "ns", config_map("a"))
    assert made["data"] == {"a": "ü"}
    path = CONFIG_MAP.path("ns", "a")
    assert api.patch(path, {"data": {"b": "c"}})["data"] == {"a": "ü", "b": "c"}
    with pytest.raises(ConflictError):
        api.delete(path, "another-uid")
    assert api.delete(path, made["metadata"]["uid"])["kind"] == "Status"
    with pytest.raises(NotFoundError):
        api.get(path)
    assert [requests(metrics, *each) for each in (("create", "201"), ("patch", "200"), ("delete", "409"))] == [1] * 3


def test_a_watch_tells_what_happens_until_it_is_stopped_by_another_thread(server: ObjectsApi) -> None:
    api, _ = client(server)
    watch = api.watch(CONFIG_MAP.path("ns"), version=str(server.objects.version), timeout_s=300)
    seen: list[str] = []
    first, ended = threading.Event(), threading.Event()

    def read() -> None:
        try:
            for event in watch:
                if event["type"] != "BOOKMARK":
                    seen.append(f"{event['type']} {event['object']['metadata']['name']}")
                    first.set()
        except UnavailableError:
            pass  # a stop may look like an end or like a break
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    api.create(CONFIG_MAP, "ns", config_map("a"))
    assert first.wait(PATIENCE_S)
    watch.stop()
    assert ended.wait(PATIENCE_S)
    watch.stop()  # as often as one likes
    assert seen == ["ADDED a"]


def test_a_list_is_read_page_by_page(server: ObjectsApi) -> None:
    configuration = Configuration(host=f"http://127.0.0.1:{server.port}")
    api = Api(Access(configuration, 2), agent="mpi-operator", manager="mpi-agents", page=2)
    for name in "abcde":
        api.create(CONFIG_MAP, "ns", config_map(name))
    found = [(one["kind"], one["apiVersion"], one["metadata"]["name"]) for one in api.items(CONFIG_MAP.path("ns"))]
    assert found == [("ConfigMap", "v1", name) for name in "abcde"]


def test_a_watch_after_a_version_that_is_too_old_is_gone(server: ObjectsApi) -> None:
    """The API server answers 200, and says so in an event."""
    api, _ = client(server)
    version = str(server.objects.version)
    api.create(CONFIG_MAP, "ns", config_map("a"))
    server.end_watches(forget=True)
    with pytest.raises(GoneError) as caught:
        list(api.watch(CONFIG_MAP.path("ns"), version=version, timeout_s=5))
    assert caught.value.code == 410


def test_a_watch_that_is_refused_says_why(server: ObjectsApi) -> None:
    def fault(_request: Request) -> bool:
        raise Failure(403, "Forbidden", "pods is forbidden")

    server.fault = fault
    with pytest.raises(RejectedError, match="pods is forbidden"):
        client(server)[0].watch(POD.path(), version="1", timeout_s=5)


def test_a_watch_that_breaks_off_is_no_end(server: ObjectsApi) -> None:
    api, _ = client(server)
    version = str(server.objects.version)
    api.create(CONFIG_MAP, "ns", config_map("a"))
    watch = iter(api.watch(CONFIG_MAP.path("ns"), version=version, timeout_s=300))
    assert next(watch)["type"] == "ADDED"
    server.cut()
    with pytest.raises(UnavailableError, match="no answer from http"):
        list(watch)


def test_a_token_is_asked_for_at_each_request() -> None:
    """A pod's token is renewed under its path every hour."""
    configuration, count = Configuration(), iter(range(10))
    configuration.host = "https://10.0.0.1:443"

    def renew(given: Any) -> None:
        given.api_key["BearerToken"] = f"Bearer token-{next(count)}"

    configuration.api_key["BearerToken"] = "x"
    configuration.refresh_api_key_hook = renew
    access = Access(configuration, 1)
    assert [access.headers()["authorization"] for _ in range(2)] == ["Bearer token-0", "Bearer token-1"]


def test_a_kubeconfig_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"name": "x", "cluster": {"server": "http://127.0.0.1:1/k8s/clusters/c-1"}}
    contexts = [{"name": "x", "context": {"cluster": "x", "user": "x"}}]
    users = [{"name": "x", "user": {"token": "secret"}}]
    path = tmp_path / "config"
    path.write_text(json.dumps({"clusters": [cluster], "contexts": contexts, "users": users, "current-context": "x"}))
    access = load(str(path), 1)
    assert access.path == "/k8s/clusters/c-1"
    assert access.headers()["authorization"] == "Bearer secret"
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert load("", 1).host == access.host


def test_no_configuration_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="no cluster is configured by /nowhere"):
        load("/nowhere", 1)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(AccessError, match="a pod's service account"):
        load("", 1)
