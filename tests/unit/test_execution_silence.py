"""One exec request whose server falls silent, answers again, or goes away: pings, and when they give it up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from execution_bench import ACK, Hearer, Serving, next_frame, serving, upgrade
from scripted_api import authority, certificate, read_to_end, reset_at_its_end
from test_streams import SUCCESS, message
from test_websocket import FIN, server_frame

from rshagent.net.connection import Link
from rshagent.stream.websocket import PING, PONG

if TYPE_CHECKING:
    import socket

__all__ = ["authority", "certificate", "serving"]


def say_nothing(stream: socket.socket) -> None:
    stream.sendall(upgrade(stream))
    read_to_end(stream)


def test_pings_go_out_and_come_back(serving: Serving) -> None:
    seen: list[tuple[int, bytes]] = []

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + server_frame(FIN | PING, b"you?"))
        for _ in range(3):
            seen.append(next_frame(stream))
        read_to_end(stream)

    with serving(serve) as bench:
        hearer = Hearer()
        execution = bench.execute(hearer)
        for number in range(1, 4):
            bench.until(lambda number=number: len(seen) == number)  # type: ignore[misc]
            bench.clock.now += 10
        execution.close()
    assert seen == [(PONG, b"you?"), (PING, b""), (PING, b"")]


def test_a_server_that_falls_silent_is_given_up_after_a_minute(serving: Serving) -> None:
    with serving(say_nothing) as bench:
        _execution, hearer = bench.open()
        for _ in range(6):
            assert not hearer.is_over
            bench.wait(10)
        assert not hearer.is_over
        bench.wait(10)
        assert hearer.end == (None, "the API server has been silent for 60 s")


def test_one_that_waits_for_its_command_to_take_stdin_is_not_taken_for_silent(serving: Serving) -> None:
    may_answer = threading.Event()

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream))
        may_answer.wait(20)
        stream.sendall(server_frame(FIN | PONG, b"") * 9)
        read_to_end(stream)

    with serving(serve) as bench:
        execution, hearer = bench.open()
        execution.send(b"typed")
        for _ in range(9):
            bench.wait(10)
        assert hearer.heard == ["opened", "stalled", "stalled", "stalled"]
        assert execution.is_silent
        may_answer.set()
        bench.until(lambda: not execution.is_silent)
        for _ in range(7):  # all stdin was taken, and now it is the server that says nothing
            assert not hearer.is_over
            bench.wait(10)
        assert hearer.heard[4:] == [(None, "the API server has been silent for 60 s")]


def test_a_paused_one_is_not_taken_for_silent(serving: Serving) -> None:
    with serving(say_nothing) as bench:
        execution, hearer = bench.open()
        execution.pause()
        for _ in range(20):
            bench.wait(10)
        execution.resume()
        bench.wait(0)
        assert not hearer.is_over
        execution.close()


def test_a_ping_that_finds_the_connection_gone_ends_it_once(serving: Serving) -> None:
    may_reset = threading.Event()

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream))
        may_reset.wait(20)
        reset_at_its_end(stream)
        stream.close()

    with serving(serve) as bench:
        execution, hearer = bench.open()
        execution.pause()
        may_reset.set()
    for _ in range(3):  # nothing is read while paused, so it is a ping that meets the reset; then no more of them
        bench.wait(10)
    outcome, reason = hearer.end
    assert outcome is None
    assert "connection" in reason


@pytest.mark.parametrize("then", ["silence", "reset"])
def test_a_status_counts_though_the_stream_does_not_end_well(serving: Serving, then: str) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + message(2, ACK + b" 7\n") + message(3, SUCCESS) + message(1, b"late"))
        if then == "reset":
            reset_at_its_end(stream)
            stream.recv(1)
            return
        read_to_end(stream)

    with serving(serve) as bench:
        hearer = Hearer()
        execution = bench.execute(hearer)
        bench.until(lambda: b"late" in hearer.heard)
        if then == "reset":
            execution.send(b"x")
            bench.until(lambda: hearer.is_over)
        else:
            bench.wait(4.9)
            assert not hearer.is_over
            bench.wait(0.2)
    assert hearer.code == 0


def test_a_connection_that_the_request_finds_gone_is_not_pinged(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(stream: socket.socket) -> None:
        read_to_end(stream)

    def send(link: Link, _data: bytes) -> None:
        link.abandon()

    monkeypatch.setattr(Link, "send", send)
    with serving(serve) as bench:
        hearer = bench.run()
        bench.wait(10)
    assert hearer.end == (None, "internal error")
