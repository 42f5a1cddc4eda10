"""Delivery by ssh as its own process: real sockets, real sshds, and names from a file instead of DNS."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from delivery_ssh import Launcher, NameServer, listening
from ssh_server import SshServer, needs_sshd

from delivery import exits
from tests.ports import free_port
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    made.close()


FIRST, SECOND = "127.0.0.2", "127.0.0.3"


def test_sshds_that_answer_end_the_wait_and_are_written_down(launcher: Launcher) -> None:
    port = free_port()
    launcher.hosts_are("pi-launcher", "pi-worker-0", "pi-worker-1")
    launcher.names(pi_worker_0=[FIRST], pi_worker_1=[SECOND])
    with listening(FIRST, port), listening(SECOND, port):
        assert launcher.run(ports=str(port)) == exits.READY
    assert launcher.hosts() == [f"{FIRST}\tpi-worker-0", f"{SECOND}\tpi-worker-1"]
    assert launcher.told.splitlines()[0] == f"waiting for the sshds of 2 workers, on port {port}"
    assert launcher.last_line.startswith("2/2 ready after")
    assert launcher.log.read_text() == ""
    assert (launcher.volume / "auth" / "id_rsa").exists()


def test_each_step_of_a_worker_is_told(launcher: Launcher) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0", "pi-worker-1")
    launcher.names(pi_worker_1="")
    launcher.start(ports=str(port))
    launcher.until_told("0/2 ready · pi-worker-0, pi-worker-1 not in DNS yet")
    launcher.names(pi_worker_0=[FIRST], pi_worker_1=[SECOND])
    launcher.until_told(f"0/2 ready · pi-worker-0, pi-worker-1 not listening on port {port} yet")
    with listening(FIRST, port):
        launcher.until_told(f"1/2 ready · pi-worker-1 not listening on port {port} yet")
        with listening(SECOND, port, stays=True):
            assert launcher.end() == exits.READY


def test_replaced_worker_is_found_at_its_new_address(launcher: Launcher) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    launcher.start(ports=str(port))
    launcher.until_told("not listening")
    launcher.names(pi_worker_0=[SECOND])
    with listening(SECOND, port):
        assert launcher.end() == exits.READY
    assert launcher.hosts() == [f"{SECOND}\tpi-worker-0"]


@pytest.fixture
def server(launcher: Launcher) -> Iterator[NameServer]:
    """The cluster's DNS, which the launcher's resolv.conf names."""
    made = NameServer()
    search = "default.svc.cluster.local svc.cluster.local cluster.local"
    (launcher.folder / "zone.resolv.conf").write_text(f"search {search}\nnameserver 127.0.0.1\n")
    launcher.environ["DNS_PORT"] = str(made.port)
    yield made
    made.close()


FULL = "pi-worker-0.pi.default.svc.cluster.local"


def test_an_address_is_asked_for_when_the_name_is_there(launcher: Launcher, server: NameServer) -> None:
    """Else the cluster's DNS would keep it for half a minute that it is not."""
    launcher.environ["DNS_TIMEOUT_S"] = "25"  # of a name server that is a thread of ours
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    with listening(FIRST, port):
        launcher.start(ports=str(port))
        launcher.until_told("pi-worker-0 not in DNS yet")
        while len({kind for _, kind in server.asked}) < 3:  # what is kept of one type is not asked for again
            time.sleep(0.01)
        assert launcher.names_asked() == []
        server.names = frozenset({FULL})
        assert launcher.end() == exits.READY
    assert launcher.names_asked() == ["pi-worker-0.pi"]
    assert {name for name, _ in server.asked} == {FULL}
    assert {1, 28}.isdisjoint(kind for _, kind in server.asked)  # A and AAAA


def test_a_name_server_that_says_nothing_holds_up_nobody(launcher: Launcher, server: NameServer) -> None:
    port = free_port()
    server.is_silent = True
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    with listening(FIRST, port):
        assert launcher.run(ports=str(port)) == exits.READY
    until(lambda: server.asked, "its question is read")


def test_one_of_several_addresses_is_enough(launcher: Launcher) -> None:
    """A dual-stack pod whose sshd listens on one family only."""
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=["::1", FIRST])
    with listening(FIRST, port):
        assert launcher.run(ports=str(port)) == exits.READY


def test_ssh_is_told_ports_that_differ(launcher: Launcher) -> None:
    mine, theirs = free_port(), free_port()
    third = "127.0.0.4"
    launcher.hosts_are("pi-worker-0", "pi-worker-1", "pi-worker-2")
    launcher.names(pi_worker_0=[FIRST], pi_worker_1=[SECOND], pi_worker_2=[third])
    with listening(FIRST, mine), listening(SECOND, theirs), listening(third, theirs):
        assert launcher.run(ports=f"{mine} {theirs}") == exits.READY
    config = launcher.volume / "run/ssh_config"
    for first in ("pi-worker-0.pi", "pi-worker-0", "pi-worker-0.pi.default.svc.cluster.local"):
        assert ssh_port(config, first) == mine
    assert ssh_port(config, "pi-worker-1.pi") == ssh_port(config, "pi-worker-2") == theirs


def ssh_port(config: Path, host: str) -> int:
    """The port that ssh would connect to."""
    told = subprocess.run(["ssh", "-G", "-F", config, host], check=True, capture_output=True, text=True).stdout
    return int(next(line.split()[1] for line in told.splitlines() if line.startswith("port ")))


HELD = {
    "a web server": (b"HTTP/1.1 400 Bad Request\r\n\r\n", 'no sshd on port {}: what listens there says "HTTP/1.1 400'),
    "closes": (b"", "closing connections to port {}: without an ssh banner"),
}


@pytest.mark.parametrize("what", HELD)
def test_what_is_no_sshd_ends_the_wait_after_the_grace(launcher: Launcher, what: str) -> None:
    port = free_port()
    said, words = HELD[what]
    launcher.hosts_are("pi-worker-0", "pi-worker-1")
    launcher.names(pi_worker_0=[FIRST], pi_worker_1=[SECOND])
    with listening(FIRST, port), listening(SECOND, port, said):
        assert launcher.run("--grace", "300ms", ports=str(port)) == exits.GRACE_OVER
    what, _, detail = words.format(port).partition(": ")
    assert re.search(rf"pi-worker-1 {what} for \d+ s, longer than the grace: {re.escape(detail)}", launcher.last_line)
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"
    assert not (launcher.kube / "hosts").exists()


def test_worker_that_answered_long_ago_is_asked_again(launcher: Launcher) -> None:
    port = free_port()
    launcher.environ["CHECK_AGAIN_S"] = "0.01"
    launcher.hosts_are("pi-worker-0", "pi-worker-1")
    launcher.names(pi_worker_0=[FIRST], pi_worker_1=[SECOND])
    with listening(FIRST, port):
        launcher.start(ports=str(port))
        launcher.until_told(f"1/2 ready · pi-worker-1 not listening on port {port} yet")
    with listening(SECOND, port):
        launcher.until_told(f"1/2 ready · pi-worker-0 not listening on port {port} yet")
        with listening(FIRST, port):
            assert launcher.end() == exits.READY


def test_hostfile_that_changes(launcher: Launcher) -> None:
    port = free_port()
    launcher.environ["CHECK_AGAIN_S"] = "30"
    launcher.hosts_are("pi-worker-0", "pi-worker-1")
    launcher.names(pi_worker_0=[FIRST])
    with listening(FIRST, port) as first:
        launcher.start(ports=str(port))
        launcher.until_told("1/2 ready")
        launcher.hosts_are("pi-worker-0", "pi-worker-2")
        launcher.until_told("the hostfile has changed: waiting for 2 workers")
        launcher.until_told("1/2 ready · pi-worker-2 not in DNS yet")
        launcher.hosts_are("pi-worker-0")
        assert launcher.end() == exits.READY
        assert first.came == 1
    assert launcher.hosts() == [f"{FIRST}\tpi-worker-0"]


def test_many_workers_are_waited_for_at_once(launcher: Launcher) -> None:
    """All of a thousand, more than are looked at at the same time."""
    port = free_port()
    pods = {f"pi_worker_{number}": [f"127.1.{number // 250}.{number % 250 + 1}"] for number in range(1000)}
    launcher.hosts_are(*(pod.replace("_", "-") for pod in pods))
    launcher.names(**pods)
    launcher.start(ports=str(port))
    launcher.until_told("0/1000 ready · pi-worker-0, pi-worker-1 and 998 more not listening")
    with listening("", port):
        assert launcher.end() == exits.READY
    assert len(launcher.hosts()) == 1000


def test_signal_ends_it_at_once_even_while_dns_hangs(launcher: Launcher) -> None:
    os.unlink(launcher.zone)
    os.mkfifo(launcher.zone)  # whoever reads it waits for ever
    launcher.hosts_are("pi-worker-0")
    launcher.start(ports="22")
    launcher.until_told("0/1 ready · pi-worker-0 not known yet")
    launcher.process.send_signal(signal.SIGTERM)
    assert launcher.end() == 128 + signal.SIGTERM
    assert "stopped by SIGTERM while waiting: 0/1 ready" in launcher.last_line


def test_ports_that_are_none(launcher: Launcher) -> None:
    assert launcher.run(ports="ssh") == exits.USAGE
    assert "MPI_SSH_PORTS is 'ssh'" in launcher.last_line


@needs_sshd
def test_a_real_sshd_that_comes_up_meanwhile_logs_no_error(launcher: Launcher, tmp_path: Path) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    launcher.start(ports=str(port))
    launcher.until_told("not listening")
    with SshServer(tmp_path, port, "-o", f"ListenAddress={FIRST}") as sshd:
        assert launcher.end() == exits.READY
        until(lambda: "[preauth]" in sshd.log(), "sshd tells that its client has gone")
        assert "error" not in sshd.log()


def accepted(port: int) -> socket.socket | None:
    """Return a connection that sshd counts."""
    connection = socket.create_connection((FIRST, port))
    if connection.recv(4) == b"SSH-":
        return connection
    connection.close()
    return None


@needs_sshd
def test_a_real_sshd_that_has_too_many_connections(launcher: Launcher, tmp_path: Path) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    away = f'pi-worker-0 turning connections to port {port} away: sshd says "Exceeded MaxStartups"'
    with SshServer(tmp_path, port, "-o", f"ListenAddress={FIRST}", "-o", "MaxStartups=1"):
        launcher.start(ports=str(port))
        assert launcher.end() == exits.READY
        with until(lambda: accepted(port), "the connection before has been let go of"):
            launcher.start(ports=str(port))
            launcher.until_told(away)
        assert launcher.end() == exits.READY
