"""Readiness follows a real sshd's banner."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from running import DEADLINE_S
from ssh_server import SshServer, needs_sshd
from worker_running import running

from tests.ports import free_port
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from worker_running import Worker

pytestmark = needs_sshd


def test_a_pod_is_ready_while_its_sshd_answers(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, MPI_SSH_PORTS=f"{port}", MPI_SSH_VOLUME=str(tmp_path)) as worker:
        assert "nothing listens" in worker.until("/readyz", 503)
        worker.until("/healthz", 200)
        sshd = SshServer(tmp_path, port)
        assert worker.until("/readyz", 200) == f"sshd answers at port {port}\n"
        sshd.end()
        assert worker.until("/readyz", 503) == "sshd has ended\n"
        assert "killed or crashed" in worker.until_said("sshd is gone")
        again = SshServer(tmp_path, port)
        worker.until("/readyz", 200)
        worker.until_said(f"sshd answers again at port {port}: SSH-2.0-OpenSSH")
        again.end(signal.SIGTERM)
        worker.until_said("was terminated by SIGTERM")
    slow = ("sends no banner", "see whether the container")  # of an sshd that was held up
    lines = [line for line in worker.log().splitlines() if not any(words in line for words in slow)]
    assert len(lines) == 5, "one line for each change, and one for the end"


def test_who_waits_for_sshd_has_no_answer_before_there_is_one_to_give(tmp_path: Path) -> None:
    """The kubelet makes a Warning event of each failed probe: a healthy start has none."""
    port = free_port()
    with running(tmp_path, MPI_SSH_PORTS=f"{port}", MPI_SSH_VOLUME=str(tmp_path)) as worker:
        worker.until("/readyz", 503)
        with waiting(worker) as answer, waiting(worker) as gone:
            gone.close()
            worker.until("/readyz", 503)  # asked later, and answered
            answer.setblocking(False)
            with pytest.raises(BlockingIOError):
                answer.recv(1)
            answer.settimeout(DEADLINE_S)
            sshd = SshServer(tmp_path, port)
            assert answer.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert worker.ask("/readyz?wait")[0] == 200
        sshd.end()
        worker.until("/readyz?wait", 503)  # immediately: it was ready


@pytest.mark.parametrize("end", ["foreign", "SIGTERM"])
def test_who_waits_for_sshd_is_told_if_there_will_be_none(tmp_path: Path, end: str) -> None:
    with socket.socket() as server, running(tmp_path, MPI_SSH_PORTS=f"{(port := free_port())}") as worker:
        worker.until("/readyz", 503)
        with waiting(worker) as answer:
            worker.until("/readyz", 503)
            if end == "SIGTERM":
                worker.process.send_signal(signal.SIGTERM)
            else:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(("127.0.0.1", port))
                server.listen()
                server.settimeout(DEADLINE_S)
                with server.accept()[0] as connection:
                    connection.sendall(b"220 smtp ready\r\n")
            assert answer.recv(4096).startswith(b"HTTP/1.1 503 ")


def test_a_crowd_does_not_take_the_place_of_who_waits(tmp_path: Path) -> None:
    port = free_port()
    with contextlib.ExitStack() as stack, running(tmp_path, MPI_SSH_PORTS=f"{port}") as worker:
        worker.until("/readyz", 503)
        answer = stack.enter_context(waiting(worker))
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", worker.port))).sendall(b"GET /he")
        assert worker.ask("/healthz") == (200, "ok\n")
        stack.enter_context(SshServer(tmp_path, port))
        assert answer.recv(4096).startswith(b"HTTP/1.1 200 ")


def waiting(worker: Worker) -> socket.socket:
    """Ask as the kubelet's probe does."""
    connection = socket.create_connection(("127.0.0.1", worker.port), DEADLINE_S)
    connection.sendall(b"GET /readyz?wait HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection


def test_sshd_is_asked_once_as_long_as_its_socket_is_the_same(tmp_path: Path) -> None:
    port = free_port()
    with SshServer(tmp_path, port) as sshd, running(tmp_path, MPI_SSH_PORTS=f"{free_port()} {port}") as worker:
        worker.until("/readyz", 200)
        for _ in range(50):
            worker.until("/readyz", 200)
        # Reset, where sshd has begun its key exchange before it sees the end.
        until(lambda: "[preauth]" in sshd.log(), lambda: f"sshd has logged the connection's end: {sshd.log()}")
    assert len(re.findall("Connection (closed|reset) by", sshd.log())) == 1, "each connection costs it a line"


def test_a_stopped_sshd_is_not_ready(tmp_path: Path) -> None:
    port = free_port()
    with SshServer(tmp_path, port) as sshd:
        os.kill(sshd.process.pid, signal.SIGSTOP)
        with running(tmp_path, MPI_SSH_PORTS=f"{port}") as worker:
            worker.until("/readyz", 503, "sends no banner")
            os.kill(sshd.process.pid, signal.SIGCONT)
            worker.until("/readyz", 200)
