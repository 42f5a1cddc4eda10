"""One exec request against servers written by hand: what its listener hears, in order, and when it hears no more."""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest
from clocks import Clock
from scripted_api import Authority, Server, authority, certificate, read_head, read_to_end, settle, until_on
from test_spdy import ACKNOWLEDGED, ERROR, GONE, OPEN, STDIN, STDOUT, control, number
from test_spdy import FIN as SPDY_FIN
from test_spdy import data as spdy_data
from test_spdy import switching as switching_to_spdy
from test_streams import CLOSED, SUCCESS, message, switching
from test_websocket import FIN, decode, server_frame

from rshagent.cluster import Cluster
from rshagent.engine import Engine
from rshagent.execution import Execution, Listener, Where
from rshagent.loop import Loop
from rshagent.status import Exited, Failure
from rshagent.streams import Acknowledged, Opened, Output
from rshagent.websocket import BINARY, PING, PONG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rshagent.streams import Event

__all__ = ["authority", "certificate"]

ACK = b"mpi-agent 0123456789abcdef"


class Hearer(Listener):
    """What an execution told; may act on each event."""

    __slots__ = ("act", "heard")

    def __init__(self, act: Callable[[Event], None] | None = None) -> None:
        self.heard: list[object] = []
        self.act = act

    def exec_event(self, event: Event) -> None:
        if isinstance(event, Output):
            self.heard.append(bytes(event.data))
        else:
            self.heard.append({Opened: "opened", Acknowledged: "acknowledged"}[type(event)])
        if self.act is not None:
            self.act(event)

    def exec_stalled(self) -> None:
        self.heard.append("stalled")

    def exec_ended(self, outcome: Exited | Failure | None, reason: str) -> None:
        assert not self.is_over, "ended twice"
        self.heard.append((outcome, reason))

    @property
    def is_over(self) -> bool:
        return bool(self.heard) and isinstance(self.heard[-1], tuple)

    @property
    def end(self) -> tuple[Exited | Failure | None, str]:
        last = self.heard[-1]
        assert isinstance(last, tuple)
        return last


class Bench:
    """An engine on a clock that the test moves, and a cluster whose token and CA are files."""

    def __init__(self, folder: Path, authority: Authority, port: int, protocols: str = "") -> None:
        (folder / "token").write_text("first")
        (folder / "ca.crt").write_bytes(authority.pem)
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(port),
            "MPI_AGENT_SERVICE_ACCOUNT": str(folder),
        }
        self.clock = Clock()
        self.loop = Loop(self.clock)
        cluster = Cluster.load(environ, self.clock)
        self.engine = Engine(self.loop, cluster, launcher="launcher", protocols_text=protocols)

    def execute(self, hearer: Hearer, *, acknowledgement: bytes | None = ACK) -> Execution:
        where = Where("training", "worker-0", "main")
        return Execution(self.engine, where, [b"true"], hearer, stdin=True, acknowledgement=acknowledgement)

    def until(self, done: Callable[[], bool]) -> None:
        until_on(self.loop, done)


def upgrade(stream: socket.socket, protocol: str = "v5.channel.k8s.io") -> bytes:
    """Read a request and return the answer that opens its stream."""
    key = read_head(stream).partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
    return switching(key.encode(), protocol)


def next_frame(stream: socket.socket) -> tuple[int, bytes]:
    data = b""
    while len(data) < 2 or len(data) < 6 + (data[1] & 0x7F):
        more = stream.recv(1)
        assert more, data
        data += more
    assert data[1] & 0x7F < 126
    return decode(data)[:2]


def test_a_good_one(tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]) -> None:
    got: list[object] = []

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + message(2, ACK + b" 7\n") + message(1, b"out"))
        got.append(next_frame(stream))
        got.append(next_frame(stream))
        stream.sendall(message(3, SUCCESS) + CLOSED)
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        assert hearer.heard == []
        bench.until(lambda: b"out" in hearer.heard)
        assert execution.protocol == "v5.channel.k8s.io"
        execution.send(b"typed")
        assert execution.close_stdin()
        bench.until(lambda: hearer.is_over)
    assert hearer.heard[:3] == ["opened", "acknowledged", b"out"]
    outcome, _ = hearer.end
    assert isinstance(outcome, Exited)
    assert outcome.code == 0
    assert got == [(BINARY, b"\0typed"), (BINARY, b"\xff\0")]


def test_v4_can_not_end_stdin(tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream, "v4.channel.k8s.io"))
        assert read_to_end(stream) == b""

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        bench.until(lambda: "opened" in hearer.heard)
        assert not execution.close_stdin()
        execution.close()


@pytest.mark.parametrize("at", ["opened", "acknowledged", b"out"])
def test_who_closes_hears_no_more_of_what_came_with_the_same_bytes(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path], at: str | bytes
) -> None:
    whole = message(2, ACK + b" 7\n") + message(1, b"out") + message(3, SUCCESS) + CLOSED

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + whole)
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench = Bench(tmp_path, authority, server.port)

        def act(_: Event) -> None:
            if hearer.heard[-1] == at:
                execution.close()

        hearer = Hearer(act)
        execution = bench.execute(hearer)
        bench.until(lambda: at in hearer.heard)
        settle(bench.loop)
    assert hearer.heard[-1] == at


def test_a_refusal_names_what_was_refused_and_a_401_makes_the_token_be_read_again(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    tokens: list[str] = []

    def serve(stream: socket.socket) -> None:
        tokens.append(read_head(stream).partition("Authorization: ")[2].partition("\r\n")[0])
        stream.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench = Bench(tmp_path, authority, server.port)
        for token in ("second", "third"):
            hearer = Hearer()
            bench.execute(hearer)
            bench.until(lambda hearer=hearer: hearer.is_over)  # type: ignore[misc]
            outcome, _ = hearer.end
            assert isinstance(outcome, Failure)
            assert (outcome.http_status, outcome.retryable) == (401, True)
            (tmp_path / "token").write_text(token)
    # The file was read again by the use after the 401, by when it had the new token.
    assert tokens == ["Bearer first", "Bearer second"]


def test_an_untrusted_server_is_final_and_makes_the_ca_be_read_again(
    tmp_path: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    renewed = Authority(tmp_path_factory.mktemp("renewed"), "renewed-ca")

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + CLOSED)
        read_to_end(stream)

    with Server(serve, renewed.issue("server", "127.0.0.1")) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        (tmp_path / "ca.crt").write_bytes(renewed.pem)
        bench.execute(hearer)
        bench.until(lambda: hearer.is_over)
        outcome, _ = hearer.end
        assert isinstance(outcome, Failure)
        assert not outcome.retryable
        again = Hearer()
        bench.execute(again)
        bench.until(lambda: again.is_over)
        assert again.heard[0] == "opened"


def test_a_token_that_can_not_be_read_is_a_failure(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    def serve(stream: socket.socket) -> None:
        assert read_to_end(stream) == b"", "a request without a token"

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        bench.engine.cluster.renew()
        (tmp_path / "token").unlink()
        bench.execute(hearer)
        bench.until(lambda: hearer.is_over)
    outcome, _ = hearer.end
    assert isinstance(outcome, Failure)
    assert not outcome.retryable
    assert "the token can't be read" in outcome.message


def test_pings_go_out_and_come_back(tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]) -> None:
    seen: list[tuple[int, bytes]] = []
    ready = threading.Event()

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + server_frame(FIN | PING, b"you?"))
        for _ in range(3):
            seen.append(next_frame(stream))
            ready.set()
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        for number in range(1, 4):
            bench.until(lambda number=number: len(seen) == number)  # type: ignore[misc]
            bench.clock.now += 10
        execution.close()
    assert seen == [(PONG, b"you?"), (PING, b""), (PING, b"")]


def test_a_server_that_falls_silent_is_given_up_after_a_minute(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream))
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        bench.execute(hearer)
        bench.until(lambda: "opened" in hearer.heard)
        for _ in range(6):
            assert not hearer.is_over
            bench.clock.now += 10
            settle(bench.loop)
        assert not hearer.is_over
        bench.clock.now += 10
        settle(bench.loop)
        assert hearer.end == (None, "the API server has been silent for 60 s")


def test_one_that_waits_for_its_command_to_take_stdin_is_not_taken_for_silent(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    may_answer = threading.Event()

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream))
        may_answer.wait(20)
        stream.sendall(server_frame(FIN | PONG, b"") * 9)
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        bench.until(lambda: "opened" in hearer.heard)
        execution.send(b"typed")
        for _ in range(9):
            bench.clock.now += 10
            settle(bench.loop)
        assert hearer.heard == ["opened", "stalled", "stalled", "stalled"]
        assert execution.is_silent
        may_answer.set()
        bench.until(lambda: not execution.is_silent)
        for _ in range(7):  # all stdin was taken, and now it is the server that says nothing
            assert not hearer.is_over
            bench.clock.now += 10
            settle(bench.loop)
        assert hearer.heard[4:] == [(None, "the API server has been silent for 60 s")]


def test_a_paused_one_is_not_taken_for_silent(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream))
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        bench.until(lambda: "opened" in hearer.heard)
        execution.pause()
        for _ in range(20):
            bench.clock.now += 10
            settle(bench.loop)
        execution.resume()
        settle(bench.loop)
        assert not hearer.is_over
        execution.close()


def test_a_ping_that_finds_the_connection_gone_ends_it_once(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    may_reset = threading.Event()

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream))
        may_reset.wait(20)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.close()

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        bench.until(lambda: "opened" in hearer.heard)
        execution.pause()
        may_reset.set()
    for _ in range(3):  # nothing is read while paused, so it is a ping that meets the reset; then no more of them
        bench.clock.now += 10
        settle(bench.loop)
    outcome, reason = hearer.end
    assert outcome is None
    assert "connection" in reason


@pytest.mark.parametrize("then", ["silence", "reset"])
def test_a_status_counts_though_the_stream_does_not_end_well(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path], then: str
) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + message(2, ACK + b" 7\n") + message(3, SUCCESS) + message(1, b"late"))
        if then == "reset":
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.recv(1)
            return
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        execution = bench.execute(hearer)
        bench.until(lambda: b"late" in hearer.heard)
        if then == "reset":
            execution.send(b"x")
            bench.until(lambda: hearer.is_over)
        else:
            bench.clock.now += 4.9
            settle(bench.loop)
            assert not hearer.is_over
            bench.clock.now += 0.2
            settle(bench.loop)
    outcome, _ = hearer.end
    assert isinstance(outcome, Exited)
    assert outcome.code == 0


def test_bytes_that_make_no_sense_end_it_as_unknown(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + b"\xf2\x00")
        read_to_end(stream)

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port), Hearer()
        bench.execute(hearer)
        bench.until(lambda: hearer.is_over)
    assert hearer.end[0] is None
    assert hearer.end[1].startswith("the stream can't be read: ")


class Verbs:
    """An API server that grants verbs on pods/exec, and tells which requests it had."""

    def __init__(self, *granted: str) -> None:
        self.granted = set(granted)
        self.asked: list[str] = []
        self.stdin = b""

    def __call__(self, stream: socket.socket) -> None:
        head = read_head(stream)
        line = head.partition("\r\n")[0]
        verb = {"GET": "get", "POST": "create"}[line.partition(" ")[0]]
        self.asked.append(line)
        if verb not in self.granted:
            said = f'{{"message":"User \\"x\\" cannot {verb} resource \\"pods/exec\\""}}'
            stream.sendall(f"HTTP/1.1 403 Forbidden\r\nContent-Length: {len(said)}\r\n\r\n{said}".encode())
        elif verb == "get":
            key = head.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
            stream.sendall(switching(key.encode()) + message(3, SUCCESS) + CLOSED)
        else:
            stream.sendall(switching_to_spdy())
            opening = stream.recv(4096)
            stream.sendall(OPEN + ACKNOWLEDGED + spdy_data(STDOUT, b"out"))
            end = control(6, number(1)) + spdy_data(STDIN, b"", SPDY_FIN)
            while not (opening + self.stdin).endswith(end):
                self.stdin += stream.recv(4096)
            stream.sendall(control(6, number(1)) + spdy_data(ERROR, SUCCESS) + GONE)
        read_to_end(stream)

    @property
    def methods(self) -> list[str]:
        return [line.partition(" ")[0] for line in self.asked]


def run(bench: Bench) -> tuple[Hearer, Execution]:
    """Have an exec run to its end, with a word of stdin and a ping."""
    hearer = Hearer()
    execution = bench.execute(hearer)
    bench.until(lambda: b"out" in hearer.heard or hearer.is_over)
    if not hearer.is_over:
        execution.send(b"typed")
        bench.clock.now += 10
        settle(bench.loop)
        assert execution.close_stdin()
    bench.until(lambda: hearer.is_over)
    return hearer, execution


def test_where_only_create_is_granted_it_goes_by_spdy_and_so_do_all_that_follow(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    granting = Verbs("create")
    with Server(granting, certificate) as server:
        bench = Bench(tmp_path, authority, server.port)
        for methods in (["GET", "POST"], ["GET", "POST", "POST"]):
            hearer, execution = run(bench)
            assert hearer.heard[:3] == ["opened", "acknowledged", b"out"]
            assert isinstance(hearer.end[0], Exited)
            assert execution.protocol == "v4.channel.k8s.io"
            assert granting.methods == methods
        assert len({line.partition(" ")[2] for line in granting.asked}) == 1, "not the same request"
        assert spdy_data(STDIN, b"typed") in granting.stdin


@pytest.mark.parametrize(
    ("protocols", "answer", "may_run"),
    [("", b"", True), ("v4", b"", True), ("spdy", b"", False), ("spdy", switching_to_spdy(), True)],
    ids=["v5-asked", "v4-asked", "spdy-asked", "spdy-channels"],
)
def test_from_when_on_the_command_may_run(
    tmp_path: Path,
    authority: Authority,
    certificate: tuple[Path, Path],
    protocols: str,
    answer: bytes,
    may_run: bool,
) -> None:
    def serve(stream: socket.socket) -> None:
        read_head(stream)
        stream.sendall(answer)
        if answer:
            assert stream.recv(4096), "the channels' opening"

    with Server(serve, certificate) as server:
        bench, hearer = Bench(tmp_path, authority, server.port, protocols), Hearer()
        execution = bench.execute(hearer)
        assert not execution.may_run, "nothing is sent yet"
        bench.until(lambda: hearer.is_over)
    assert hearer.end[0] is None
    assert "opened" not in hearer.heard
    assert execution.may_run is may_run


def test_what_is_granted_later_is_found(tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]) -> None:
    granting = Verbs()
    with Server(granting, certificate) as server:
        bench = Bench(tmp_path, authority, server.port)
        outcome, _ = run(bench)[0].end
        assert isinstance(outcome, Failure)
        assert outcome.patience_s == 5
        assert "cannot create" in outcome.message
        assert "The verbs get and create are both missing" in outcome.message
        granting.granted = {"create"}
        assert isinstance(run(bench)[0].end[0], Exited)
        granting.granted = {"get"}
        outcome, _ = run(bench)[0].end
        assert isinstance(outcome, Failure)
        assert "The verb create is missing" in outcome.message
        assert isinstance(run(bench)[0].end[0], Exited)
    assert granting.methods == ["GET", "POST", "GET", "POST", "POST", "GET"]


def test_a_server_that_knows_no_spdy_is_not_what_there_is_to_say(
    tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]
) -> None:
    def serve(stream: socket.socket) -> None:
        is_websocket = read_head(stream).startswith("GET ")
        answer = "403 Forbidden" if is_websocket else "400 Bad Request"
        said = b'cannot get resource "pods/exec"' if is_websocket else b"Upgrade request required"
        stream.sendall(f"HTTP/1.1 {answer}\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)
        read_to_end(stream)

    with Server(serve, certificate) as server:
        outcome, _ = run(Bench(tmp_path, authority, server.port))[0].end
    assert isinstance(outcome, Failure)
    assert (outcome.http_status, outcome.patience_s) == (403, 5)
    assert "The verb get is missing" in outcome.message


@pytest.mark.parametrize(
    ("protocols", "granted", "methods"),
    [("spdy", ("get", "create"), ["POST"]), ("v5,v4", ("create",), ["GET"]), ("v4,spdy", ("create",), ["GET", "POST"])],
)
def test_the_protocols_can_be_chosen(
    tmp_path: Path,
    authority: Authority,
    certificate: tuple[Path, Path],
    protocols: str,
    granted: tuple[str, ...],
    methods: list[str],
) -> None:
    granting = Verbs(*granted)
    with Server(granting, certificate) as server:
        bench = Bench(tmp_path, authority, server.port, protocols)
        hearer, _ = run(bench)
    assert granting.methods == methods
    assert isinstance(hearer.end[0], Exited if methods[-1] == "POST" else Failure)
