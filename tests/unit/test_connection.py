"""A connection against real TLS servers and proxies: what goes through, what is refused, and that it ends once."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import pytest
from clocks import Clock
from scripted_api import (
    Authority,
    Recorder,
    Server,
    authority,
    certificate,
    cluster_at,
    greet,
    linked,
    lost_of,
    read_to_end,
    reset_at_its_end,
    settle,
    until,
    until_on,
)

from agents.common.loop import Loop
from rshagent.net import connection
from rshagent.net.connection import Link, Owner
from tests.ports import free_port

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path


__all__ = ["authority", "certificate"]

MIB = 1 << 20


def open_sockets() -> list[str]:
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(link for link in links if link.startswith("socket:"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_bytes_go_both_ways_by_address_and_by_name(
    authority: Authority, certificate: tuple[Path, Path], host: str
) -> None:
    with Server(greet, certificate, host="::1" if host == "::1" else "127.0.0.1") as server:
        loop, owner, link = linked(cluster_at(server.port, authority.path, host=host))
        link.send(b"world")
        assert owner.told == [], "from within the call"
        until(loop, lambda: owner.data == b"hello world")
        assert owner.told[0] == "opened"
        link.close()
        settle(loop)
        assert owner.lost is None


def test_ten_mebibytes_each_way_with_pauses(authority: Authority, certificate: tuple[Path, Path]) -> None:
    received = threading.Event()

    def echo(stream: socket.socket) -> None:
        stream.recv(1)
        assert not received.is_set()
        total = 1
        stream.sendall(bytes(range(256)) * (10 * MIB // 256))
        while total < 10 * MIB:
            total += len(stream.recv(65536))
        stream.sendall(b"done")
        read_to_end(stream)

    with Server(echo, certificate) as server:
        loop, owner, link = linked(cluster_at(server.port, authority.path))
        for _ in range(160):
            link.send(bytes(65536))
        assert link.is_behind
        pauses = 0
        while not owner.data.endswith(b"done"):
            pauses += 1
            link.pause()
            assert link.is_paused
            told = len(owner.told)
            settle(loop)
            assert [each for each in owner.told[told:] if isinstance(each, bytes)] == [], "received while paused"
            link.resume()
            until(loop, lambda told=told: len(owner.told) > told)  # type: ignore[misc]
        assert pauses > 5
        assert owner.data[:-4] == bytes(range(256)) * (10 * MIB // 256)
        assert owner.told.count("drained") == 1
        assert not link.is_behind
        link.close()


def test_a_flood_on_one_connection_leaves_the_loop_to_others(
    authority: Authority, certificate: tuple[Path, Path]
) -> None:
    def flood(stream: socket.socket) -> None:
        chunk = bytes(MIB)
        with contextlib.suppress(OSError):  # until the client has had enough
            while True:
                stream.sendall(chunk)

    class Flooded(Owner):
        pieces = 0

        def received(self, data: memoryview) -> None:
            Flooded.pieces += 1
            assert Flooded.pieces < 3, "the timer had no turn"
            loop.call_later(0, loop.stop)

    with Server(flood, certificate) as server:
        loop = Loop()
        link = Link(loop, cluster_at(server.port, authority.path), Flooded())
        loop.run()
        link.close()
    assert Flooded.pieces > 0


def reset(stream: socket.socket) -> None:
    reset_at_its_end(stream)
    stream.close()


def test_a_reset_while_paused_neither_spins_nor_is_forgotten(
    authority: Authority, certificate: tuple[Path, Path]
) -> None:
    may_reset, turns = threading.Event(), list[int]()

    def serve(stream: socket.socket) -> None:
        stream.sendall(b"before")
        may_reset.wait(20)
        reset(stream)

    class Counting(Loop):
        def _run_due(self) -> None:
            turns.append(1)
            super()._run_due()

    with Server(serve, certificate) as server:
        loop, owner, link = linked(cluster_at(server.port, authority.path), Counting())
        until(loop, lambda: owner.data == b"before")
        link.pause()
        may_reset.set()
    # The server's thread has ended, so the reset is here.
    turns.clear()
    loop.call_later(0.02, loop.stop)
    loop.run()
    assert len(turns) < 20
    assert owner.lost is None
    link.resume()
    until(loop, lambda: owner.lost is not None)


ENDS: dict[str, Callable[[socket.socket], object]] = {
    "closed": lambda stream: None,
    "reset": reset,
    "garbage": lambda stream: os.write(stream.fileno(), bytes(100)),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_comes_once_after_all_that_came_before_it(
    authority: Authority, certificate: tuple[Path, Path], how: str
) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(b"x" * 100_000)
        stream.recv(1)
        stream.sendall(b"last")
        stream.recv(1)
        ENDS[how](stream)

    before = open_sockets()
    with Server(serve, certificate) as server:
        loop, owner, link = linked(cluster_at(server.port, authority.path))
        link.send(b"1")
        until(loop, lambda: owner.data.endswith(b"last"))
        link.send(b"2")
        until(loop, lambda: owner.lost is not None)
        settle(loop)
        assert owner.data == b"x" * 100_000 + b"last"
        assert owner.lost is not None
        assert not owner.lost.is_final
        link.close()
        link.send(b"unsent")
    assert open_sockets() == before


def test_nobody_listens(authority: Authority) -> None:
    lost = lost_of(cluster_at(free_port(), authority.path))
    assert lost.reason == "the API server can't be reached: Connection refused"
    assert not lost.is_final


def test_a_name_that_nobody_knows(authority: Authority) -> None:
    lost = lost_of(cluster_at(443, authority.path, host="no..where"))  # which no name server is asked for
    assert lost.reason.startswith("no..where is not known: ")
    assert not lost.is_final


def test_a_server_that_does_not_speak_tls(authority: Authority) -> None:
    def be_sshd(stream: socket.socket) -> None:
        stream.sendall(b"SSH-2.0-OpenSSH\r\n")
        read_to_end(stream)

    with Server(be_sshd) as server:
        lost = lost_of(cluster_at(server.port, authority.path))
    assert "TLS with the API server failed" in lost.reason
    assert not lost.is_final


def test_out_of_descriptors_is_a_lost_connection(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("rshagent.net.connection.Socket", refuse)
    assert lost_of(cluster_at(443, authority.path)).reason.endswith("can't be reached: Too many open files")


@pytest.mark.parametrize("stage", ["handshake", "proxy"])
def test_a_server_that_never_answers_is_given_up(authority: Authority, stage: str) -> None:
    heard, clock = threading.Event(), Clock()

    def be_silent(stream: socket.socket) -> None:
        stream.recv(10)
        heard.set()
        read_to_end(stream)

    with Server(be_silent) as server:
        environ = {"HTTPS_PROXY": f"http://127.0.0.1:{server.port}"} if stage == "proxy" else {}
        host = "192.0.2.1" if stage == "proxy" else "127.0.0.1"
        loop, owner, _link = linked(cluster_at(server.port, authority.path, host=host, environ=environ), Loop(clock))
        until_on(loop, heard.is_set)
        clock.now += connection.CONNECT_TIMEOUT_S - 0.001
        settle(loop)
        assert owner.told == []
        clock.now += 0.001
        settle(loop)
        assert owner.lost is not None
        assert "did not answer within 10 s" in owner.lost.reason
        assert not owner.lost.is_final


def test_a_link_that_is_closed_before_it_began_does_nothing(authority: Authority) -> None:
    before = open_sockets()
    loop, owner, link = linked(cluster_at(1, authority.path))
    link.close()
    settle(loop)
    assert owner.told == []
    assert open_sockets() == before


def test_a_bug_of_its_owner_can_be_abandoned(authority: Authority, certificate: tuple[Path, Path]) -> None:
    class Buggy(Recorder):
        def received(self, data: memoryview) -> None:
            raise KeyError("a bug")

    with Server(lambda stream: stream.sendall(b"x"), certificate) as server:
        loop = Loop()
        loop.on_error = lambda call, _error: call.__self__.abandon()  # type: ignore[attr-defined]
        owner = Buggy(loop)
        Link(loop, cluster_at(server.port, authority.path), owner)
        until(loop, lambda: owner.lost is not None)
        assert owner.told[0] == "opened"
        assert owner.lost is not None
        assert owner.lost.reason == "internal error"
