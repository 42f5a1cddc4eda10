"""The worker agent's endpoints, orders and end: the real command, bad clients, links swapped as the kubelet does."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from running import DEADLINE_S
from worker_running import Mounted, Worker, needs_namespaces, running, with_setting

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def orders(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "orders")


@pytest.fixture
def worker(tmp_path: Path, orders: Mounted) -> Iterator[Worker]:
    orders.write(order="")
    with running(tmp_path) as worker:
        worker.until("/readyz", 200)
        yield worker


def connected(worker: Worker, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", worker.port), DEADLINE_S)
    connection.sendall(sent)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return all that comes until the other side has ended."""
    parts = []
    with contextlib.closing(connection), contextlib.suppress(ConnectionResetError):
        while data := connection.recv(4096):
            parts.append(data)
    return b"".join(parts)


def test_an_order_is_taken_when_the_annotation_changes(worker: Worker, orders: Mounted) -> None:
    assert worker.ask("/readyz") == (200, "ready\n")
    orders.write(order="debug")
    worker.until("/readyz", 200, "debug: ready")
    assert "mpi_worker_debug 1\n" in worker.ask("/metrics")[1]
    orders.write(order="run")
    worker.until_said("order: run")
    assert worker.ask("/readyz") == (200, "ready\n")


@needs_namespaces
def test_a_node_without_inotify_left_is_no_reason_to_miss_an_order(tmp_path: Path, orders: Mounted) -> None:
    orders.write(order="run")
    without = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    without += ['echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"', "sh"]
    with running(tmp_path, inside=without) as worker:
        worker.until_said("polling for changes every 5 s: the kernel does not report them (")
        orders.write(order="debug")
        worker.until("/readyz", 200, "debug: ready")


def test_the_process_view_is_not_served_over_tcp(worker: Worker) -> None:
    assert worker.ask("/processes")[0] == 404


def test_at_its_end_it_is_not_ready_and_answers_who_has_asked(tmp_path: Path, orders: Mounted) -> None:
    orders.write(order="")
    with running(tmp_path, program=with_setting("agent", "DRAIN_S", DEADLINE_S)) as worker:
        worker.until("/readyz", 200)
        connection = connected(worker, b"GET /readyz HTTP/1.1\r\n")
        worker.ask("/healthz")  # so that the connection before it is accepted
        worker.process.send_signal(signal.SIGTERM)
        worker.until_said("shutting down: SIGTERM")
        until(lambda: worker.ask("/readyz") == (0, ""), "nobody is accepted any more")
        connection.sendall(b"\r\n")
        assert received(connection).startswith(b"HTTP/1.1 503 ")
        assert worker.process.wait(DEADLINE_S) == 0


def test_a_client_that_says_nothing_does_not_hold_up_the_end(worker: Worker) -> None:
    with connected(worker, b"GET"):
        worker.ask("/healthz")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(DEADLINE_S) == 0


def test_its_socket_is_served_as_soon_as_there_is_a_folder_for_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / "worker.sock"
    first = Worker(tmp_path, MPI_WORKER_SOCKET=str(path))
    with first.process:
        try:
            first.until("/healthz", 200)
            path.parent.mkdir()
            first.socket = str(path)
            assert first.processes()["ready"] is True
        finally:
            first.process.kill()  # its socket stays behind
    with running(tmp_path, MPI_WORKER_SOCKET=str(path)) as again:
        again.socket = str(path)
        assert again.processes()["ready"] is True
    assert not path.exists()


def refused(tmp_path: Path, *words: str, **environ: str) -> tuple[int, str]:
    """Return how it ends that can't begin, and its line."""
    worker = Worker(tmp_path, **environ)
    worker.process.kill()
    worker.process.wait()
    ended = subprocess.run(
        [*worker.command(), *words], env=worker.environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MPI_WORKER_GRACE": "soon"}, "MPI_WORKER_GRACE: 'soon' is not a duration"),
    ],
)
def test_wrong_settings_end_it_with_2_and_a_line(tmp_path: Path, environ: dict[str, str], words: str) -> None:
    code, said = refused(tmp_path, **environ)
    assert (code, said.count("\n")) == (2, 1)
    assert words in said


def test_an_argument_ends_it_with_2_and_a_line(tmp_path: Path) -> None:
    code, said = refused(tmp_path, "--port=1")
    assert (code, said.count("\n")) == (2, 1)


def test_a_port_in_use_ends_it_with_3_and_a_line(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as server:
        code, said = refused(tmp_path, MPI_WORKER_PORT=str(server.getsockname()[1]))
    assert (code, said.count("\n")) == (3, 1)
    assert "Address already in use (MPI_WORKER_PORT)" in said


def test_a_socket_that_cannot_be_is_no_reason_to_end(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with running(tmp_path, MPI_WORKER_SOCKET=f"{tmp_path}/file/worker.sock") as worker:
        assert "Not a directory (MPI_WORKER_SOCKET)" in worker.until_said("continuing without the socket")
        worker.until("/readyz", 200)
