"""The pods of an API server that says what a test tells it to, and a watch over them on a clock that the test moves."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from clocks import Clock
from scripted_api import (
    PATIENCE_S,
    Authority,
    Server,
    in_pod,
    read_head,
    read_to_end,
    reset_at_its_end,
    settle,
    until_on,
)

from agents.common.loop import Loop
from rshagent.net.cluster import Cluster
from rshagent.pods.podwatch import PodWatch, Trouble

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rshagent.net.cluster import Cluster

Answer = bytes | tuple[bytes, str]


def pod(name: str, version: int = 1, phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "status": {"phase": phase}}


def plain(body: object, status: int = 200, fields: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{fields}\r\n".encode() + data


def page(*items: dict[str, Any], version: int = 10, token: str = "") -> bytes:
    return plain({"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)})


def line(kind: str, raw: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": raw}).encode() + b"\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


WATCHING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def watching(*lines: bytes) -> bytes:
    """Begin a watch that does not end."""
    return WATCHING + b"".join(chunk(each) for each in lines)


class Api:
    """Answers each request in its turn: bytes to send, and how.

    "reset", "close": end the connection behind them; "later", "close later": send them when `later` is set; else: hold
    the line.
    """

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder, self.answers, self.targets, self.tokens = folder, list[Answer](), list[str](), list[str]()
        self.server = Server(self._serve, authority.issue("server", "127.0.0.1"))
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.cluster = Cluster.load(in_pod(folder, authority, self.server.port), self.clock)
        self.ended = 0  # connections
        self.later = threading.Event()  # lets an answer end
        self.changes: list[str | None] = []
        self.on_change: Callable[[str | None], None] = self.changes.append
        self.troubles: list[Trouble] = []
        self.watch: PodWatch | None = None

    def start(self, *answers: Answer, selector: str | None = None, wanted: frozenset[str] | None = None) -> PodWatch:
        self.answers += answers
        self.watch = PodWatch(
            self.loop,
            self.cluster,
            "training",
            selector=selector,
            wanted=wanted,
            on_change=lambda name: self.on_change(name),  # noqa: PLW0108 (bound later)
            on_trouble=self.troubles.append,
        )
        self.watch.start()
        return self.watch

    def until(self, done: Callable[[], bool]) -> None:
        until_on(self.loop, done)

    def until_asked(self, count: int) -> None:
        self.until(lambda: len(self.targets) >= count)
        settle(self.loop)
        assert len(self.targets) == count, self.targets

    def query(self, index: int) -> dict[str, str]:
        parts = urlsplit(self.targets[index])
        assert parts.path == "/api/v1/namespaces/training/pods"
        return {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}

    def _serve(self, stream: socket.socket) -> None:
        head = read_head(stream)
        self.tokens.append(head.partition("Authorization: Bearer ")[2].partition("\r\n")[0])
        answer = self.answers.pop(0) if self.answers else b""
        data, then = answer if isinstance(answer, tuple) else (answer, "hold")
        self.targets.append(head.split(" ")[1])
        if then.endswith("later"):
            assert self.later.wait(PATIENCE_S)
            self.later.clear()
        with contextlib.suppress(OSError):  # a watch that was closed meanwhile
            stream.sendall(data)
        if then == "reset":
            reset_at_its_end(stream)
        elif then in ("hold", "later"):
            read_to_end(stream)
        self.ended += 1


@pytest.fixture
def api(tmp_path: Path, authority: Authority) -> Iterator[Api]:
    api = Api(tmp_path, authority)
    with api.server:
        yield api
        if api.watch is not None:
            api.watch.close()


@pytest.fixture(scope="module")
def idle(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return Cluster.load(in_pod(tmp_path_factory.mktemp("idle"), authority))
