"""What Kueue says of a queued job, and that nothing is missed where it is not there or says nothing.

Kueue's answers are those of its documentation: https://kueue.sigs.k8s.io/docs/tasks/manage/monitor_pending_workloads
tests/cluster/operator/test_kueue.py has a real one's.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from user_shell import Shell, cells

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Object = dict[str, Any]

MPIJOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
VISIBILITY, KUEUE = "/apis/visibility.kueue.x-k8s.io", "/apis/kueue.x-k8s.io"
PENDING = f"{VISIBILITY}/v1beta1/namespaces/default/localqueues/gpu/pendingworkloads"
WORKLOADS = f"{KUEUE}/v1beta2/namespaces/default/workloads"
REASON = (
    "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more"
)


def job(name: str, *, suspend: bool = True) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    template = {"spec": {"containers": [{"name": "mpi", "image": "x", "command": ["mpirun", "-n", "2", "pi"]}]}}
    roles = {"Launcher": {"template": template}, "Worker": {"replicas": 2, "template": template}}
    return {
        "metadata": metadata | {"labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
        "spec": {"mpiReplicaSpecs": roles, "runPolicy": {"suspend": suspend}},
    }


def pending(name: str, position: int) -> Object:
    owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": name, "uid": f"uid-{name}"}
    return {"metadata": {"ownerReferences": [owner]}, "localQueueName": "gpu", "positionInLocalQueue": position}


def listed(*items: Object, api_version: str = "v1", kind: str = "") -> Object:
    return {"apiVersion": api_version, "kind": f"{kind}List", "metadata": {}, "items": [*items]}


JOBS = [job("cfd"), job("dft"), job("runs", suspend=False)]
CLUSTER = {
    MPIJOBS: listed(*JOBS, api_version="kubeflow.org/v2beta1", kind="MPIJob"),
    f"{MPIJOBS}/cfd": job("cfd"),
    "/api/v1/namespaces/default/pods": listed(),
    "/api/v1/namespaces/default/events": listed(),
}
CONDITION = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": REASON}
WITH_KUEUE = CLUSTER | {
    VISIBILITY: {"preferredVersion": {"version": "v1beta1"}},
    PENDING: listed(pending("other", 0), pending("dft", 1), pending("cfd", 2)),
    KUEUE: {"preferredVersion": {"version": "v1beta2"}},
    WORKLOADS: listed({"status": {"conditions": [CONDITION]}}),
}


class Server(ThreadingHTTPServer):
    """An API server that has these answers; the others are 404, or 403 where a path is in `forbidden`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Object] = {}
        self.forbidden: set[str] = set()
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        code = 403 if path in self.server.forbidden else 200 if path in self.server.answers else 404
        data = json.dumps(self.server.answers.get(path, {"kind": "Status"}) if code == 200 else {}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def kueue_shell(server: Server, tmp_path: Path) -> Shell:
    cluster = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    contexts = [{"name": "x", "context": {"cluster": "x", "user": "x"}}]
    config = {"clusters": [cluster], "contexts": contexts, "users": [{"name": "x", "user": {}}], "current-context": "x"}
    (tmp_path / "config").write_text(json.dumps(config))
    return Shell(str(tmp_path / "config"))


def test_the_position_and_the_reason_of_a_queued_job(server: Server, kueue_shell: Shell) -> None:
    server.answers = WITH_KUEUE
    table = kueue_shell.run("list")
    assert [cells(table, name)[-3:] for name in ("cfd", "dft", "runs")] == [
        ["2", "gpu", "3"],
        ["2", "gpu", "2"],
        ["2", "gpu", "-"],
    ]
    assert server.asked.count(PENDING) == 1
    found = kueue_shell.run("why", "cfd")
    assert "has waited in queue gpu to be admitted for" in found
    assert f", at position 3. Kueue: {REASON}.\n" in found
    assert f"at position 3. Kueue: {REASON}." in kueue_shell.run("status", "cfd")
    assert json.loads(kueue_shell.run("status", "cfd", "-o", "json"))["summary"]["position"] == 3


@pytest.mark.parametrize("without", ["not served", "forbidden"])
def test_without_kueues_answers_the_rest_is_shown(server: Server, kueue_shell: Shell, without: str) -> None:
    server.answers = CLUSTER if without == "not served" else WITH_KUEUE
    server.forbidden = {PENDING, WORKLOADS} if without == "forbidden" else set()
    assert cells(kueue_shell.run("list"), "cfd")[-3:] == ["2", "gpu", "-"]
    assert "`kubectl -n default get workloads` shows the queue's reason." in kueue_shell.run("why", "cfd")
