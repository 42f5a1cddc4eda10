"""Delivery by ssh as its own process: real sockets, real sshds, and names from a file instead of DNS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from delivery import exits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ['PATH']}")
BANNER = b"SSH-2.0-test\r\n"

# Names are looked up as ever, but those of the zone's file, which a test changes as it likes. "" is a DNS that is down.
BY_ZONE = """
import json, os, sys
from delivery.sshd import lookups, pace, presence, waiting

waiting._RESOLV_CONF = os.environ["ZONE"] + ".resolv.conf"
presence._PORT = int(os.environ.get("DNS_PORT", 53))
pace.CHECK_AGAIN_S = float(os.environ.get("CHECK_AGAIN_S", pace.CHECK_AGAIN_S))
look_up = lookups.look_up

def by_zone(name):
    with open(os.environ["ZONE"] + ".asked", "a") as file:
        file.write(name + "\\n")
    with open(os.environ["ZONE"]) as file:
        addresses = json.load(file).get(name, [])
    if addresses == "":
        return lookups.Found((), "Temporary failure in name resolution")
    return lookups.Found(tuple(found for one in addresses for found in look_up(one).addresses))

lookups.look_up = by_zone
from delivery.cli import main
main()
"""


class Launcher:
    """The launcher pod's init container: its files, its environment, DNS, and delivery in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kube, self.hostfile, self.volume = folder / "kube", folder / "hostfile", folder / "volume"
        self.zone, self.log = folder / "zone", folder / "termination-log"
        self.keys = folder / "keys"
        for made in (self.volume, self.keys):
            made.mkdir()
        self.log.touch()
        self.zone.write_text("{}")
        new_key(self.keys / "ssh-privatekey")
        (self.keys / "ssh-privatekey.pub").rename(self.keys / "ssh-publickey")
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOSTNAME": "pi-launcher",
            "MPI_AGENT_TRANSPORT": "ssh",
            "MPI_AGENT_HOSTFILE": str(self.hostfile),
            "MPI_AGENT_TERMINATION_LOG": str(self.log),
            "TARGET_DIR": str(self.kube),
            "MPI_SSH_ROLE": "launcher",
            "MPI_SSH_KEYS": str(self.keys),
            "MPI_SSH_VOLUME": str(self.volume),
            "ZONE": str(self.zone),
        }
        self._process: subprocess.Popen[str] | None = None
        self.told = ""

    def names(self, **addresses: list[str] | str) -> None:
        """Have DNS know these, by pod: a list of addresses, or "" where it gives no answer."""
        part = self.zone.with_suffix(".part")
        part.write_text(json.dumps({f"{pod.replace('_', '-')}.pi": at for pod, at in addresses.items()}))
        part.rename(self.zone)

    def names_asked(self) -> list[str]:
        """Whose addresses it has asked for."""
        path = self.folder / "zone.asked"
        return path.read_text().split() if path.exists() else []

    def hosts_are(self, *pods: str) -> None:
        part = self.hostfile.with_suffix(".part")
        part.write_text("".join(f"{pod}.pi slots=1\n" for pod in pods))
        part.rename(self.hostfile)

    def start(self, *arguments: str, ports: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", BY_ZONE, *arguments],
            env={**self.environ, "MPI_SSH_PORTS": ports},
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def until_told(self, words: str) -> str:
        """Return the next line that has `words` in it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told += line
            if words in line:
                return line
        pytest.fail(f"ended without {words!r}; it told:\n{self.told}")

    def end(self) -> int:
        _, err = self.process.communicate()
        self.told += err
        assert "Traceback" not in self.told
        return self.process.returncode

    def run(self, *arguments: str, ports: str) -> int:
        self.start(*arguments, ports=ports)
        return self.end()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stderr is not None
            self._process.stderr.close()

    @property
    def last_line(self) -> str:
        return self.told.splitlines()[-1]

    def hosts(self) -> list[str]:
        """The hosts file's lines after the first, which is this machine's own."""
        return (self.kube / "hosts").read_text().splitlines()[1:]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    made.close()


def new_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def free_port() -> int:
    """Return a port that is free at every address of this machine."""
    with socket.create_server(("", 0)) as reserved:
        return int(reserved.getsockname()[1])


class NameServer:
    """Says that there are no names, but those in `names`; or nothing at all while it `is_silent`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.names: frozenset[str] = frozenset()
        self.is_silent = False
        self.asked: list[tuple[str, int]] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                data, client = self._socket.recvfrom(512)
            except OSError:
                return
            labels, at = [], 12
            while data[at]:
                labels.append(data[at + 1 : at + 1 + data[at]].decode())
                at += 1 + data[at]
            self.asked.append((".".join(labels), int.from_bytes(data[at + 1 : at + 3], "big")))
            rcode = 0 if self.asked[-1][0] in self.names else 3
            if not self.is_silent:
                self._socket.sendto(data[:2] + bytes((0x81, 0x80 | rcode)) + data[4:], client)

    def close(self) -> None:
        self._socket.close()


class Listener:
    """Something that listens, and says `words` to whoever comes. `stays`: it does not close the connection."""

    def __init__(self, address: str, port: int, words: bytes = BANNER, *, stays: bool = False) -> None:
        self._socket = socket.create_server((address, port), backlog=1024)
        self._words, self._stays = words, stays
        self._open: list[socket.socket] = []
        self.came = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.came += 1
            connection.sendall(self._words)
            if self._stays:
                self._open.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            connection.close()


@contextmanager
def listening(address: str, port: int, words: bytes = BANNER, *, stays: bool = False) -> Iterator[Listener]:
    listener = Listener(address, port, words, stays=stays)
    try:
        yield listener
    finally:
        listener.close()


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
    assert server.asked


def test_one_of_several_addresses_is_enough(launcher: Launcher) -> None:
    """A dual-stack pod whose sshd listens on one family only."""
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=["::1", FIRST])
    with listening(FIRST, port):
        assert launcher.run(ports=str(port)) == exits.READY


def test_ssh_is_told_a_port_that_is_not_the_first(launcher: Launcher) -> None:
    closed, port = free_port(), free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    with listening(FIRST, port):
        assert launcher.run(ports=f"{closed} {port}") == exits.READY
    for config in ("run/ssh_config", "auth/config"):
        assert ssh_port(launcher.volume / config, "pi-worker-0.pi") == port


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
    "full": (b"Exceeded MaxStartups\r\n", 'turning connections to port {} away: sshd says "Exceeded MaxStartups"'),
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
    assert f"pi-worker-1 {what} for 0 s, longer than the grace: {detail}" in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"
    assert not (launcher.kube / "hosts").exists()


def test_listener_that_says_nothing(launcher: Launcher) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    with listening(FIRST, port, b"", stays=True):
        assert launcher.run("--grace", "1ms", ports=str(port)) == exits.GRACE_OVER
    assert f"pi-worker-0 silent on port {port}" in launcher.last_line


def test_worker_that_vanishes_and_is_not_replaced(launcher: Launcher) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    launcher.start("--replacement", "200ms", ports=str(port))
    launcher.until_told("not listening")
    launcher.names()
    assert launcher.end() == exits.GONE
    assert "pi-worker-0 gone from DNS and not replaced within" in launcher.last_line


def test_timeout(launcher: Launcher) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    assert launcher.run("--timeout", "300ms", ports=str(port)) == exits.TIMED_OUT
    assert "(--timeout): 0/1 ready · pi-worker-0 not in DNS yet" in launcher.last_line


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


def test_keys_that_are_missing(launcher: Launcher) -> None:
    os.unlink(launcher.keys / "ssh-privatekey")
    launcher.hosts_are("pi-worker-0")
    assert launcher.run(ports="22") == exits.SSH_FILES
    assert "ssh-privatekey" in launcher.last_line
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"


def test_ports_that_are_none(launcher: Launcher) -> None:
    assert launcher.run(ports="ssh") == exits.USAGE
    assert "MPI_SSH_PORTS is 'ssh'" in launcher.last_line


@contextmanager
def real_sshd(folder: Path, address: str, port: int, *options: str) -> Iterator[Path]:
    """Run an sshd; the path is its log."""
    if SSHD is None:
        pytest.skip("no sshd here")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    key, log = folder / f"host-key-{address}", folder / f"log-{address}"
    new_key(key)
    options = (f"ListenAddress={address}", f"Port={port}", "PidFile=none", "UsePAM=no", "LogLevel=INFO", *options)
    arguments = [SSHD, "-D", "-e", "-f", "/dev/null", "-h", str(key), *(f"-o{option}" for option in options)]
    with open(log, "wb") as file:
        process = subprocess.Popen(arguments, stderr=file, stdin=subprocess.DEVNULL)
    try:
        yield log
    finally:
        process.kill()
        process.wait()


def test_a_real_sshd_that_comes_up_meanwhile_logs_no_error(launcher: Launcher, tmp_path: Path) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    launcher.start(ports=str(port))
    launcher.until_told("not listening")
    with real_sshd(tmp_path, FIRST, port) as log:
        assert launcher.end() == exits.READY
        while "[preauth]" not in log.read_text():  # how sshd tells that a client has gone
            time.sleep(0.01)
        assert "error" not in log.read_text()


def test_a_real_sshd_that_has_too_many_connections(launcher: Launcher, tmp_path: Path) -> None:
    port = free_port()
    launcher.hosts_are("pi-worker-0")
    launcher.names(pi_worker_0=[FIRST])
    with real_sshd(tmp_path, FIRST, port, "MaxStartups=1"):
        launcher.start(ports=str(port))
        assert launcher.end() == exits.READY
        with socket.create_connection((FIRST, port)) as held:
            assert held.recv(4) == b"SSH-"
            launcher.start(ports=str(port))
            launcher.until_told(
                f'pi-worker-0 turning connections to port {port} away: sshd says "Exceeded MaxStartups"'
            )
        assert launcher.end() == exits.READY
