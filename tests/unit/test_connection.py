"""A connection against real TLS servers and proxies: what goes through, what is refused, and that it ends once."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
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
    read_head,
    read_to_end,
    settle,
    until,
    until_on,
)

from rshagent import connection
from rshagent.connection import Link, Owner
from rshagent.loop import Loop
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rshagent.cluster import Cluster

__all__ = ["authority", "certificate"]

MIB = 1 << 20


def greet(stream: socket.socket) -> None:
    stream.sendall(b"hello " + stream.recv(100))
    read_to_end(stream)


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
        loop = Loop()
        owner = Recorder(loop)
        link = Link(loop, cluster_at(server.port, authority.path, host=host), owner)
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
        loop = Loop()
        owner = Recorder(loop)
        link = Link(loop, cluster_at(server.port, authority.path), owner)
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
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
        loop = Counting()
        owner = Recorder(loop)
        link = Link(loop, cluster_at(server.port, authority.path), owner)
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
        loop = Loop()
        owner = Recorder(loop)
        link = Link(loop, cluster_at(server.port, authority.path), owner)
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


def lost_reason(cluster: Cluster) -> connection.Lost:
    loop = Loop()
    owner = Recorder(loop)
    Link(loop, cluster, owner)
    until(loop, lambda: owner.lost is not None)
    assert owner.told == [owner.lost]
    assert owner.lost is not None
    return owner.lost


def test_nobody_listens(authority: Authority) -> None:
    lost = lost_reason(cluster_at(free_port(), authority.path))
    assert lost.reason == "the API server can't be reached: Connection refused"
    assert not lost.is_final


def test_a_name_that_nobody_knows(authority: Authority) -> None:
    lost = lost_reason(cluster_at(443, authority.path, host="no..where"))  # which no name server is asked for
    assert lost.reason.startswith("no..where is not known: ")
    assert not lost.is_final


def test_a_server_that_does_not_speak_tls(authority: Authority) -> None:
    def be_sshd(stream: socket.socket) -> None:
        stream.sendall(b"SSH-2.0-OpenSSH\r\n")
        read_to_end(stream)

    with Server(be_sshd) as server:
        lost = lost_reason(cluster_at(server.port, authority.path))
    assert "TLS with the API server failed" in lost.reason
    assert not lost.is_final


def test_out_of_descriptors_is_a_lost_connection(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(connection, "Socket", refuse)
    assert lost_reason(cluster_at(443, authority.path)).reason.endswith("can't be reached: Too many open files")


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
        loop = Loop(clock)
        owner = Recorder(loop)
        Link(loop, cluster_at(server.port, authority.path, host=host, environ=environ), owner)
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
    loop = Loop()
    owner = Recorder(loop)
    link = Link(loop, cluster_at(1, authority.path), owner)
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


# Proxies


class Proxy:
    """An HTTP proxy that connects to one server, whatever it is asked for; `asked` is the heads that it was sent."""

    def __init__(self, target: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n") -> None:
        self.asked: list[str] = []
        self._target, self._answer = target, answer

    def __call__(self, stream: socket.socket) -> None:
        self.asked.append(read_head(stream))
        with contextlib.suppress(ConnectionError):  # who is refused need not hear all of it
            for byte in self._answer:
                stream.sendall(bytes((byte,)))
        if b" 200 " not in self._answer:
            return
        with socket.create_connection(("127.0.0.1", self._target)) as onward:
            back = threading.Thread(target=self._pump, args=(onward, stream), daemon=True)
            back.start()
            self._pump(stream, onward)
            back.join(20)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.mark.parametrize(
    ("credentials", "authorization"),
    [("", None), ("user:pass@", "Basic dXNlcjpwYXNz"), ("a%40b:%25@", "Basic YUBiOiU=")],
)
def test_through_a_proxy_with_and_without_authentication(
    authority: Authority, certificate: tuple[Path, Path], credentials: str, authorization: str | None
) -> None:
    with Server(greet, certificate) as server:
        proxy = Proxy(server.port)
        with Server(proxy) as proxy_server:
            # `localhost` would never go through a proxy; TLS still is with, and verified for, the server's own name.
            environ = {"HTTPS_PROXY": f"http://{credentials}127.0.0.1:{proxy_server.port}/"}
            other = authority.issue("proxied", "api.example")
            server._context.load_cert_chain(*other)  # type: ignore[union-attr]
            loop = Loop()
            owner = Recorder(loop)
            link = Link(loop, cluster_at(6443, authority.path, host="api.example", environ=environ), owner)
            link.send(b"world")
            until(loop, lambda: owner.data == b"hello world")
            link.close()
    (head,) = proxy.asked
    lines = head.split("\r\n")
    assert lines[:2] == ["CONNECT api.example:6443 HTTP/1.1", "Host: api.example:6443"]
    sent = [line.partition(": ")[2] for line in lines if line.startswith("Proxy-Authorization")]
    assert sent == ([authorization] if authorization else [])
    assert "secret" not in head, "the token is not the proxy's business"


PROXY_ANSWERS = [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy refused to connect to the API server (407)"),
    (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad", "(502)"),
    (b"SOCKS?\r\n\r\n", "the proxy's answer can't be read"),
    (b"", "the proxy's answer can't be read: it closed the connection"),
]


@pytest.mark.parametrize(("answer", "words"), PROXY_ANSWERS)
def test_a_proxy_that_refuses(authority: Authority, answer: bytes, words: str) -> None:
    with Server(Proxy(0, answer)) as proxy_server:
        environ = {"HTTPS_PROXY": f"http://user:pass@127.0.0.1:{proxy_server.port}"}
        lost = lost_reason(cluster_at(6443, authority.path, host="api.example", environ=environ))
    assert words in lost.reason
    assert "pass" not in lost.reason
    assert not lost.is_final


def test_a_proxy_that_is_not_there(authority: Authority) -> None:
    environ = {"HTTPS_PROXY": f"http://127.0.0.1:{free_port()}"}
    lost = lost_reason(cluster_at(6443, authority.path, host="api.example", environ=environ))
    assert lost.reason == "the proxy can't be reached: Connection refused"


def test_no_proxy_means_directly(authority: Authority, certificate: tuple[Path, Path]) -> None:
    environ = {"HTTPS_PROXY": f"http://127.0.0.1:{free_port()}", "NO_PROXY": "127.0.0.0/8"}
    with Server(greet, certificate) as server:
        loop = Loop()
        owner = Recorder(loop)
        link = Link(loop, cluster_at(server.port, authority.path, environ=environ), owner)
        link.send(b"world")
        until(loop, lambda: owner.data == b"hello world")
        link.close()
