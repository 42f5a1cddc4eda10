"""The HTTP endpoints of operator, worker agent and hub: whoever holds connections, others are answered."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from agents.common import http_server
from agents.common.loop import READ, Loop
from agents.operator.http_server import HttpServer
from agents.worker.agent import at_port
from rshagent.hub import metrics
from tests.ports import free_port
from tests.waiting import until
from tests.web import get

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Serving = Callable[[], AbstractContextManager[int]]

CROWD = 200
MOST = {"operator": http_server.CLIENTS_MAX, "worker": http_server.CLIENTS_MAX, "hub": metrics.CLIENTS_MAX}


@contextlib.contextmanager
def operator() -> Iterator[int]:
    server = HttpServer("127.0.0.1", 0, {"/healthz": lambda: (200, "ok\n")})
    server.start()
    yield server.port
    server.stop()


@contextlib.contextmanager
def running(loop: Loop) -> Iterator[None]:
    ended, end = socket.socketpair()
    loop.add(ended.fileno(), READ, lambda _events: loop.stop())
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield
    end.close()
    thread.join()
    ended.close()


@contextlib.contextmanager
def worker() -> Iterator[int]:
    loop, listener = Loop(), at_port(0)
    server = http_server.HttpServer(loop, listener, {"/healthz": lambda: http_server.Response(200, "ok\n")})
    with running(loop):
        yield listener.getsockname()[1]
    server.close(is_last=True)


@contextlib.contextmanager
def hub() -> Iterator[int]:
    loop, port = Loop(), free_port()
    server = metrics.serve(loop, f"127.0.0.1:{port}", lambda: "ok\n")
    with running(loop):
        yield port
    server.close(is_last=True)


SERVERS = pytest.mark.parametrize("serving", [operator, worker, hub])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@SERVERS
@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nX: "], ids=["silent", "slow"])
def test_who_holds_connections_holds_up_nobody(serving: Serving, said: bytes) -> None:
    with serving() as port, contextlib.ExitStack() as held:
        threads, before = threading.active_count(), descriptors()
        crowd = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CROWD)]
        for one in crowd:
            with contextlib.suppress(OSError):  # it has been let go
                one.sendall(said)
        assert get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        assert threading.active_count() == threads
        until(lambda: descriptors() <= before + CROWD + MOST[serving.__name__] + 1, "the oldest are let go")


@SERVERS
def test_who_says_little_at_a_time_is_let_go(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "TIMEOUT_S", 0.3)
    with serving() as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(0.05)
        slow.sendall(b"GET / HTTP/1.1\r\n")

        def is_let_go() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(is_let_go, "it is let go")


@SERVERS
def test_what_is_too_long_is_not_read_to_its_end(serving: Serving) -> None:
    with serving() as port, socket.create_connection(("127.0.0.1", port)) as long:
        long.settimeout(20)
        with contextlib.suppress(OSError):
            for _ in range(1000):
                long.sendall(b"x" * 10_000)
            long.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            assert long.recv(12) in (b"", b"HTTP/1.1 400", b"HTTP/1.1 200")


def test_a_fault_in_an_answer_is_told_and_the_next_one_comes() -> None:
    def fails() -> tuple[int, str]:
        raise RuntimeError("on purpose")

    server = HttpServer("127.0.0.1", 0, {"/metrics": fails, "/healthz": lambda: (200, "ok\n")})
    server.start()
    try:
        assert get(f"http://127.0.0.1:{server.port}/metrics")[0] == 500
        assert get(f"http://127.0.0.1:{server.port}/healthz") == (200, "ok\n")
    finally:
        server.stop()
