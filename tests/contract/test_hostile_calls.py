"""What a user's process can do to the hub through its socket: nothing that another session would feel."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from running import ROOT, WORKERS, InItsContainer, WithHub, environment, run, start

from rshagent.native import protocol
from tests.privileges import NO_CAPABILITIES
from tests.processes import secrets_in_reach
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.cluster import Cluster


def agent_with(cluster: Cluster, client: str, tmp_path: Path, *options: str) -> WithHub:
    return WithHub(environment(cluster, tmp_path, WORKERS), client, tmp_path, *options)


def test_explaining_reads_no_file_of_the_callers_choice(cluster: Cluster, client: str, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("opaque-token")
    with agent_with(cluster, client, tmp_path) as agent:
        agent.environ["MPI_AGENT_HOSTFILE"] = str(secret)
        done = run(agent, "nowhere", "true", MPI_AGENT_EXPLAIN="1")
        shown = run(agent, "worker-0", "echo 'it'", MPI_AGENT_EXPLAIN="1")
    assert b"opaque-token" not in done.stdout + done.stderr
    assert b'"pod": "worker-0"' in shown.stdout
    assert b"echo 'it'" in shown.stdout


@pytest.mark.parametrize("container", [b"\xff", b"a/b", b"", b"a?command=x"])
def test_a_container_of_no_possible_name_takes_no_place(
    cluster: Cluster, client: str, tmp_path: Path, container: bytes
) -> None:
    with agent_with(cluster, client, tmp_path, "--max-starts", "1") as agent:
        done = subprocess.run(
            [client, b"--container=" + container, "worker-0", "true"],
            env=agent.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 255
        assert done.stderr.count(b"\n") == 1
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3


def test_only_the_named_container_can_be_reached(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path, "--container", "worker") as agent:
        assert run(agent, "-n", "worker-0", "exit 3").returncode == 3
        refused = run(agent, "-n", "--container", "istio-proxy", "worker-0", "true")
        assert refused.returncode == 255
        assert b"istio-proxy" in refused.stderr
        assert run(agent, "-n", "worker-0", "true", MPI_AGENT_CONTAINER="istio-proxy").returncode == 255


def test_a_start_that_may_have_happened_is_ended_with_its_launch(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        cluster.fault("drop-after-start", pod="worker-0")
        cluster.fault("http", pod="worker-0", status=503, retry_after_s=7, times=1)  # nor can it be asked for
        before = cluster.stats()["requests"].get("exec", 0)
        process = start(agent, "-n", "worker-0", "sleep 1000")
        until(lambda: cluster.leftovers("worker-0"), "the command runs, unheard")
        cluster.until(lambda stats: stats["requests"]["exec"] >= before + 2)
        process.terminate()
        assert process.wait(90) == 143
        process.communicate()
        until(lambda: not cluster.leftovers("worker-0"), "the first try's command is gone")
        cluster.clear_faults()


def tell(path: str, message: bytes, user: int | None = None) -> protocol.Message | None:
    """Send a message, as another user if one is named; return the answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        before = os.geteuid()
        try:
            if user is not None:
                os.seteuid(user)
            sock.connect(path)
        finally:
            os.seteuid(before)
        sock.sendall(message)
        inbox = protocol.Inbox()
        while (answer := inbox.next()) is None and (data := sock.recv(4096)):
            inbox.feed(data, [])
        return answer


@pytest.mark.parametrize("stranger", ["of another container", *(["of another user"] if os.geteuid() == 0 else [])])
def test_only_the_hubs_own_container_can_end_the_job(
    cluster: Cluster, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stranger: str
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # the folders above are root's alone
    is_user = stranger == "of another user"
    kind = WithHub if is_user else InItsContainer
    with kind(environment(cluster, tmp_path, WORKERS), client, tmp_path) as agent:
        session = start(agent, "worker-0", "read line; exit 4")
        cluster.until(lambda stats: stats["running"] >= 1)
        for grace_s in (1, 30, 7 * 86400, 0xFFFFFFFF):
            answer = tell(
                "hub.sock", protocol.encode(protocol.ENDING, grace_s.to_bytes(4, "big")), 65534 if is_user else None
            )
            assert answer is not None
            assert answer.kind == protocol.FAIL
        assert tell("hub.sock", protocol.encode(protocol.CHECK), 65534 if is_user else None) is not None
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3
        session.communicate(b"\n", 90)
        assert session.returncode == 4


def test_a_session_that_tells_the_hub_to_end_is_ended_itself(cluster: Cluster, client: str, tmp_path: Path) -> None:
    """It was left to run without a client, and counted as none."""
    payload = protocol.Start([b"rshagent", b"-n", b"worker-0", b"sleep 1000"], {}, b"/", b"1-1").pack()
    with InItsContainer(environment(cluster, tmp_path, WORKERS), client, tmp_path) as agent:
        with socket.socket(socket.AF_UNIX) as sock, open(os.devnull, "rb+") as null:
            sock.settimeout(30)
            sock.connect(agent.environ["MPI_AGENT_SOCKET"])
            socket.send_fds(sock, [protocol.encode(protocol.START, payload)], [null.fileno()] * protocol.FDS)
            until(lambda: cluster.leftovers("worker-0"), "the command runs")
            sock.sendall(protocol.encode(protocol.ENDING, (30).to_bytes(4, "big")))
            while sock.recv(4096):
                pass
        until(lambda: not cluster.leftovers("worker-0"), "the command is ended")
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3


GRACES = [b"", b"\0\0\0\0", struct.pack(">I", 7 * 86400 + 1), b"\xff" * 4, b"\xff" * 40]


@pytest.mark.parametrize(
    "message",
    [*(protocol.encode(protocol.ENDING, grace) for grace in GRACES), protocol.encode(protocol.SIGNAL, b"\0\0\0\x41")],
)
def test_an_impossible_grace_period_or_signal_is_refused(
    cluster: Cluster, client: str, tmp_path: Path, message: bytes
) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        answer = tell(agent.environ["MPI_AGENT_SOCKET"], message)
        assert answer is not None
        assert answer.kind == protocol.FAIL
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3


def test_a_very_long_grace_period_is_borne(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        session = start(agent, "worker-0", "echo up; read line; exit 4")
        assert session.stdout is not None
        assert session.stdout.readline() == b"up\n"
        hook = [sys.executable, "-m", "rshagent.hub", "--ending", "--grace", str(10**12)]
        assert subprocess.run(hook, cwd=ROOT, env=agent.environ, check=False).returncode == 0
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 255, "nothing is started any more"
        session.communicate(b"\n", 90)
        assert session.returncode == 4


@pytest.mark.parametrize(
    "host", ["\n2026-01-01T00:00:00Z hub session=1 exit=0", "\x1b[2J\r\x85\u2028\u202e", "é" * 2000]
)
def test_a_host_cant_forge_a_line_of_the_log(cluster: Cluster, client: str, tmp_path: Path, host: str) -> None:
    with agent_with(cluster, client, tmp_path) as agent:
        done = run(agent, "-n", host, "true")
        container = run(agent, "-n", "--container", host, "worker-0", "true")
        for failed in (done, container):
            assert failed.returncode == 255
            assert failed.stderr.count(b"\n") == 1
    lines = agent.log().splitlines()
    assert all(line.isprintable() and len(line.encode()) < 1024 for line in lines)
    assert not any(line.startswith("2026-01-01") for line in lines)


def test_a_process_of_its_user_cant_look_into_it(cluster: Cluster, client: str, tmp_path: Path) -> None:
    """As where the pod's containers share a process namespace; the token's file is under /proc/PID/root."""

    class Plain(WithHub):
        prefix = tuple(NO_CAPABILITIES)  # whoever has more than the hub may look anyway

    with Plain(environment(cluster, tmp_path, WORKERS), client, tmp_path) as agent:
        assert agent.process is not None
        assert secrets_in_reach(agent.process.pid) == []
        assert run(agent, "-n", "worker-1", "exit 3").returncode == 3
