"""A command in a pod by the exec API of the stand-in cluster."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from agents.client import AccessError, ForbiddenError, NotFoundError, RefusedError, WaitTimeoutError
from agents.client.connection import Connection
from agents.client.pod_command import Done, run
from agents.playground.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT_S = 5.0  # long enough for the connection: its own time limit is an AccessError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_pod("worker-0")
        yield cluster


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    connection = Connection.load(cluster.kubeconfig(), None)
    yield connection
    connection.close()


def said(
    connection: Connection, script: str, *, timeout_s: float = 30.0, most: int = 1024, pod: str = "worker-0"
) -> Done:
    return run(connection, "default", pod, "worker", ["sh", "-c", script], timeout_s=timeout_s, most=most)


def test_exit_code_and_output(connection: Connection) -> None:
    assert said(connection, "echo out; echo err >&2; exit 3") == Done(3, b"out\n", b"err\n")
    assert said(connection, "true") == Done(0, b"", b"")


def test_output_is_bounded(connection: Connection) -> None:
    found = said(connection, "head -c 1000000 /dev/zero | tr '\\0' x; echo err >&2", most=100)
    assert found == Done(0, b"x" * 100, b"err\n")


def test_a_time_limit(connection: Connection) -> None:
    with pytest.raises(WaitTimeoutError, match=rf"^worker-0: no end of sh within {LIMIT_S:g} s$"):
        said(connection, "while :; do echo on and on; sleep 0.01; done", timeout_s=LIMIT_S)


def test_what_can_not_be_run(connection: Connection, cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match="no-such-program"):
        run(connection, "default", "worker-0", "worker", ["no-such-program"], timeout_s=30, most=10)
    with pytest.raises(NotFoundError, match='pods "absent" not found'):
        said(connection, "true", pod="absent")
    bare = Connection.load(cluster.kubeconfig(token=cluster.token("get pods")), None)
    with pytest.raises(ForbiddenError, match="pods/exec"):
        said(bare, "true")
    bare.close()


@pytest.mark.parametrize(
    ("fault", "meaning"),
    [
        ("drop-before-upgrade", AccessError),
        ("drop-mid-stream", AccessError),
        ("no-status", AccessError),
        ("no-answer", WaitTimeoutError),
        ("hang", WaitTimeoutError),
    ],
)
def test_a_lost_stream(connection: Connection, cluster: Cluster, fault: str, meaning: type[Exception]) -> None:
    cluster.fault(fault)
    with pytest.raises(meaning):
        said(connection, "echo hello; sleep 5", timeout_s=LIMIT_S if meaning is WaitTimeoutError else 30)


class Redirecting(BaseHTTPRequestHandler):
    """Sends every request to another path, and keeps which ones came."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(302)
        self.send_header("Location", f"ws://{self.headers['Host']}/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_redirection_does_not_get_the_token(tmp_path: Path) -> None:
    Redirecting.asked = []
    with HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
        users = [{"name": "c", "user": {"token": "secret"}}]
        config = {"current-context": "c", "contexts": [context], "clusters": [cluster], "users": users}
        (tmp_path / "config").write_text(json.dumps(config))
        connection = Connection.load(str(tmp_path / "config"), None)
        with pytest.raises(AccessError):
            said(connection, "true")
        connection.close()
        server.shutdown()
    assert [path.partition("?")[0] for path in Redirecting.asked] == ["/api/v1/namespaces/default/pods/worker-0/exec"]
