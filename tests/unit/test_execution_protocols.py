"""Which protocol an exec request goes by: what is granted, what is chosen, and what is said where neither will do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from execution_bench import Bench, Hearer, Serving, serving
from scripted_api import authority, certificate, read_head, read_to_end
from test_spdy import ACKNOWLEDGED, ERROR, GONE, OPEN, STDIN, STDOUT, control, number
from test_spdy import FIN as SPDY_FIN
from test_spdy import data as spdy_data
from test_spdy import switching as switching_to_spdy
from test_streams import CLOSED, SUCCESS, message, switching

if TYPE_CHECKING:
    import socket

__all__ = ["authority", "certificate", "serving"]


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


def run(bench: Bench) -> Hearer:
    """Have an exec run to its end, with a word of stdin and a ping."""
    hearer = Hearer()
    execution = bench.execute(hearer)
    bench.until(lambda: b"out" in hearer.heard or hearer.is_over)
    if not hearer.is_over:
        execution.send(b"typed")
        bench.wait(10)
        execution.close_stdin()
    bench.until(lambda: hearer.is_over)
    return hearer


def test_where_only_create_is_granted_it_goes_by_spdy_and_so_do_all_that_follow(serving: Serving) -> None:
    granting = Verbs("create")
    with serving(granting) as bench:
        for methods in (["GET", "POST"], ["GET", "POST", "POST"]):
            hearer = run(bench)
            assert hearer.heard[:3] == ["opened", "acknowledged", b"out"]
            assert hearer.code == 0
            assert granting.methods == methods
        assert len({line.partition(" ")[2] for line in granting.asked}) == 1, "not the same request"
        assert spdy_data(STDIN, b"typed") in granting.stdin


@pytest.mark.parametrize(
    ("by_spdy", "answer", "may_run"),
    [(False, b"", True), (True, b"", False), (True, switching_to_spdy(), True)],
    ids=["websocket-asked", "spdy-asked", "spdy-channels"],
)
def test_from_when_on_the_command_may_run(
    serving: Serving,
    by_spdy: bool,
    answer: bytes,
    may_run: bool,
) -> None:
    def serve(stream: socket.socket) -> None:
        read_head(stream)
        stream.sendall(answer)
        if answer:
            assert stream.recv(4096), "the channels' opening"

    with serving(serve) as bench:
        bench.engine.by_spdy = by_spdy
        hearer = Hearer()
        execution = bench.execute(hearer)
        assert not execution.may_run, "nothing is sent yet"
        bench.until(lambda: hearer.is_over)
    assert hearer.end[0] is None
    assert "opened" not in hearer.heard
    assert execution.may_run is may_run


def test_what_is_granted_later_is_found(serving: Serving) -> None:
    granting = Verbs()
    with serving(granting) as bench:
        failure = bench.run().failure
        assert failure.patience_s == 5
        assert "cannot create" in failure.message
        assert "The verbs get and create are both missing" in failure.message
        granting.granted = {"create"}
        assert run(bench).code == 0
        granting.granted = {"get"}
        assert "The verb create is missing" in bench.run().failure.message
        assert run(bench).code == 0
    assert granting.methods == ["GET", "POST", "GET", "POST", "POST", "GET"]


def test_a_server_that_knows_no_spdy_is_not_what_there_is_to_say(serving: Serving) -> None:
    def serve(stream: socket.socket) -> None:
        is_websocket = read_head(stream).startswith("GET ")
        answer = "403 Forbidden" if is_websocket else "400 Bad Request"
        said = b'cannot get resource "pods/exec"' if is_websocket else b"Upgrade request required"
        stream.sendall(f"HTTP/1.1 {answer}\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)
        read_to_end(stream)

    with serving(serve) as bench:
        failure = bench.run().failure
    assert (failure.http_status, failure.patience_s) == (403, 5)
    assert "The verb get is missing" in failure.message


def test_a_server_without_version_5_is_asked_by_spdy(serving: Serving) -> None:
    """As with the feature gate off: the kubelet's WebSocket server refuses the handshake, by 403 and nothing else."""
    asked: list[str] = []

    def serve(stream: socket.socket) -> None:
        asked.append(read_head(stream).partition(" ")[0])
        if asked[-1] == "GET":
            stream.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        else:
            stream.sendall(switching_to_spdy())
            assert stream.recv(4096), "the channels' opening"
            stream.sendall(OPEN + ACKNOWLEDGED + spdy_data(ERROR, SUCCESS) + GONE)
        read_to_end(stream)

    with serving(serve) as bench:
        assert run(bench).code == 0
    assert asked == ["GET", "POST"]
