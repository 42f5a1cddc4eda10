"""What a user's process can send the hub: it stays under its memory limit, and other sessions begin and end as ever."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from running import WORKERS, WithHub, environment, run, start

from rshagent.hub.pending import CLIENTS_MAX
from rshagent.native import protocol
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agents.playground.cluster import Cluster

MEMORY_MAX = 64 << 20  # the limit of the hub's container
NULL = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
HUGE = protocol.PAYLOAD_MAX


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Hub(WithHub):
    """A hub and its hostile clients."""

    def __init__(self, cluster: Cluster, client: str, folder: Path, *options: str, **environ: str) -> None:
        self.sockets: list[socket.socket] = []
        hosts = [*WORKERS, "worker-away"]
        super().__init__({**environment(cluster, folder, hosts), **environ}, client, folder, *options)

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.environ["MPI_AGENT_SOCKET"])  # without a timeout: it waits for a place in the backlog
        self.sockets.append(sock)
        return sock

    def kill(self) -> None:
        for sock in self.sockets:
            sock.close()
        super().kill()

    def status(self, field: str) -> int:
        """Bytes of VmRSS, or of VmHWM, which is the most that it has been."""
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines[field].split()[0]) * 1024


def push(sock: socket.socket, data: bytes, fds: tuple[int, ...] = (), patience_s: float = 1) -> None:
    """Send all that the hub takes; it may have closed the connection, or read no more."""
    sock.settimeout(patience_s)
    with contextlib.suppress(OSError):
        sent = socket.send_fds(sock, [data[:1024]], fds) if fds else 0
        sock.sendall(data[sent:])


def start_of(*argv: bytes, instance: bytes = b"1-1", **env: bytes) -> bytes:
    variables = {name.encode(): value for name, value in env.items()}
    return protocol.encode(protocol.START, protocol.Start(list(argv), variables, b"/", instance).pack())


def unfinished_messages(hub: Hub) -> None:
    for _ in range(32):
        push(hub.connect(), protocol.encode(protocol.START, bytes(HUGE))[:-1])


def silent_connections(hub: Hub) -> None:
    for number in range(2 * CLIENTS_MAX):
        push(hub.connect(), b"MPIA\x01"[: number % 6])


def small_unfinished_messages(hub: Hub) -> None:
    for _ in range(CLIENTS_MAX):
        push(hub.connect(), protocol.encode(protocol.START, bytes(100_000))[:-1])


def files_with_each_byte(hub: Hub) -> None:
    for _ in range(20):
        sock = hub.connect()
        with contextlib.suppress(OSError):
            for byte in protocol.encode(protocol.START, bytes(HUGE))[:500]:
                socket.send_fds(sock, [bytes([byte])], [NULL] * 4)


def empty_strings(hub: Hub) -> None:
    for argc in (HUGE - 10, protocol.STRINGS_MAX):
        payload = struct.pack(">II", argc, 0) + bytes(argc + 2)
        push(hub.connect(), protocol.encode(protocol.START, payload), (NULL,) * 3)


def answers_that_nobody_reads(hub: Hub) -> None:
    for _ in range(4):
        push(hub.connect(), protocol.encode(protocol.CHECK) * 1_000_000)


def data_after_an_error(hub: Hub) -> None:
    """By who does not read the answer: its socket is full."""
    sock = hub.connect()
    push(sock, protocol.encode(protocol.CHECK) * 40_000 + b"MPIA\xff" + bytes(256 << 20), patience_s=3)


def long_commands_that_wait(hub: Hub) -> None:
    for _ in range(12):
        push(hub.connect(), start_of(b"rshagent", b"-n", b"worker-away", b"#" * (HUGE - 100)), (NULL,) * 3)


def middling_commands_that_wait(hub: Hub) -> None:
    for _ in range(600):
        push(hub.connect(), start_of(b"rshagent", b"-n", b"worker-away", b"#" * 100_000), (NULL,) * 3)


def many_words_that_wait(hub: Hub) -> None:
    words = [b"ab"] * 60_000
    for _ in range(80):
        push(hub.connect(), start_of(b"rshagent", b"-n", b"worker-away", *words), (NULL,) * 3)


def hosts_of_many_bytes(hub: Hub) -> None:
    for host in (b"\xff" * (HUGE - 100), b"a." * (HUGE // 2 - 100), b"\n" * (1 << 20)):
        for more in ({}, {"MPI_AGENT_EXPLAIN": b"1"}):
            push(hub.connect(), start_of(b"rshagent", host, b"true", **more), (NULL,) * 3)


def words_that_are_shown(hub: Hub) -> None:
    long = b"\xff" * (HUGE - 100)
    for argv in ([b"--container", long, b"worker-0", b"true"], [b"worker-0"], [b"--" + long], [b"x@" + long]):
        push(hub.connect(), start_of(b"rshagent", *argv), (NULL,) * 3)
    push(hub.connect(), start_of(b"kubectl", b"exec", long), (NULL,) * 3)
    push(hub.connect(), start_of(b"kubectl", *(b"-v=%d" % n for n in range(60_000)), b"exec"), (NULL,) * 3)
    push(hub.connect(), start_of(b"rshagent", b"worker-0", long, MPI_AGENT_EXPLAIN=b"1"), (NULL,) * 3)
    push(hub.connect(), start_of(b"rshagent", b"localhost", long), (NULL,) * 3)
    push(hub.connect(), start_of(b"rshagent", b"worker-0", b"true", instance=long), (NULL,) * 3)


def calls_as_kubectl(hub: Hub) -> None:
    """Each of which takes, or took, far more time or memory than its bytes."""
    names = [b"%d" % number for number in range(60_000)]
    for argv in (
        [b"get", b"pods", *names], [b"get", b"pods", b"-l", b"a," * (HUGE // 2 - 100)],
        [b"get", b"pods", b"--field-selector", b"a=," * (HUGE // 3 - 100)], [b"-" + b"i" * (HUGE - 100), b"exec"],
        [b"exec", b"-" + b"i" * (HUGE - 100), b"worker-0", b"--", b"true"],
        [b"exec", b"worker-0", b"--", b"'" * (HUGE - 100)], [b"logs", b"'" * (HUGE - 100)],
    ):  # fmt: skip
        push(hub.connect(), start_of(b"kubectl", *argv), (NULL,) * 3)
    push(hub.connect(), start_of(b"rshagent", b"-ab " * (HUGE // 4 - 100), b"/x", b"worker-0", b"true"), (NULL,) * 3)


def tickets(hub: Hub) -> None:
    for ticket in (b"[" * HUGE, b'"' + b"\xff" * (HUGE - 2) + b'"', b"9" * 4096, b"[" * 4096):
        push(hub.connect(), protocol.encode(protocol.RESUME, ticket), (NULL,) * 3)


def messages_in_a_session(hub: Hub) -> None:
    """More than a session may say: another start, files, signals without end."""
    signal = protocol.encode(protocol.SIGNAL, struct.pack(">I", 10))
    for more in (protocol.encode(protocol.START, bytes(HUGE))[:-1], signal * 200_000):
        sock = hub.connect()
        push(sock, start_of(b"rshagent", b"-n", b"worker-0", b"trap '' USR1; sleep 1000"), (NULL,) * 3)
        push(sock, more)
    sock = hub.connect()
    push(sock, start_of(b"rshagent", b"-n", b"worker-0", b"sleep 1000"), (NULL,) * 3)
    with contextlib.suppress(OSError):
        for _ in range(1000):
            socket.send_fds(sock, [signal], [NULL] * 3)


FLOODS: list[Callable[[Hub], None]] = [
    unfinished_messages, silent_connections, small_unfinished_messages, files_with_each_byte, empty_strings,
    answers_that_nobody_reads, data_after_an_error, long_commands_that_wait, middling_commands_that_wait,
    many_words_that_wait, hosts_of_many_bytes, words_that_are_shown, calls_as_kubectl, tickets, messages_in_a_session,
]  # fmt: skip


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_it_stays_small_and_serves_others(
    cluster: Cluster, client: str, tmp_path: Path, flood: Callable[[Hub], None]
) -> None:
    with Hub(cluster, client, tmp_path, MPI_AGENT_LIMITS="worker=300,start=300") as hub:
        assert run(hub, "-n", "worker-1", "exit 3").returncode == 3
        session = start(hub, "worker-1", "read line; exit 4")
        flood(hub)
        assert run(hub, "-n", "worker-1", "exit 3").returncode == 3
        assert session.communicate(b"\n", 90) == (b"", b"")
        assert session.returncode == 4
        print(f"{flood.__name__}: {hub.status('VmHWM') >> 10} KiB at most, now {hub.status('VmRSS') >> 10}")
        assert hub.status("VmHWM") < MEMORY_MAX
        assert files_of(hub) < 4 * CLIENTS_MAX + 100
        log = hub.log()
        assert "internal error" not in log
        assert max(map(len, log.encode().splitlines())) < 1024


def files_of(hub: Hub) -> int:
    assert hub.process is not None
    with open(f"/proc/{hub.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("FDSize"))


def test_a_long_command_waits_until_there_is_room(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with Hub(cluster, client, tmp_path, MPI_AGENT_LIMITS="worker=3,start=300") as hub:
        long_commands_that_wait(hub)
        assert run(hub, "-n", "worker-1", f"exit 3 #{'x' * 100_000}").returncode == 3


def is_connected(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):  # one that has just been closed
        folder = f"/proc/{pid}/fd"
        return any(os.readlink(os.path.join(folder, fd)).startswith("socket:") for fd in os.listdir(folder))
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_waits_for_room_can_be_ended(cluster: Cluster, client: str, tmp_path: Path, number: int) -> None:
    with Hub(cluster, client, tmp_path, MPI_AGENT_LIMITS="worker=300,start=300") as hub:
        long_commands_that_wait(hub)
        waiting = start(hub, "-n", "worker-1", f"exit 3 #{'x' * 100_000}")
        until(lambda: is_connected(waiting.pid), "it has asked the hub")
        waiting.send_signal(number)
        assert waiting.communicate(timeout=90) == (b"", b"")  # not: the hub did not answer
        assert waiting.returncode == 128 + number


def test_a_signal_that_comes_while_it_waits_is_passed_on(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with Hub(cluster, client, tmp_path, MPI_AGENT_LIMITS="worker=3,start=300") as hub:
        long_commands_that_wait(hub)
        waiting = start(hub, "-n", "worker-1", f"trap 'exit 9' USR1; while :; do sleep 0.1; done #{'x' * 100_000}")
        until(lambda: is_connected(waiting.pid), "it has asked the hub")
        waiting.send_signal(signal.SIGUSR1)
        waiting.communicate(timeout=90)
        assert waiting.returncode in (9, 128 + signal.SIGUSR1)  # that it comes after the trap is nobody's promise


def test_who_says_nothing_is_closed_and_who_runs_is_not(cluster: Cluster, client: str, tmp_path: Path) -> None:
    with Hub(cluster, client, tmp_path) as hub:
        session = start(hub, "worker-1", "read line; exit 4")
        silent, slow = hub.connect(), hub.connect()
        push(slow, b"MPIA\x01")
        for sock in (silent, slow):
            sock.settimeout(60)
            assert sock.recv(1) == b""
        assert session.communicate(b"\n", 90) == (b"", b"")
        assert session.returncode == 4
