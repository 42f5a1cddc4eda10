"""One exec request against a server written by hand, on a clock that the test moves, and what its listener hears."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest
from clocks import Clock
from scripted_api import Authority, Server, in_pod, read_head, settle, until_on
from test_streams import switching
from test_websocket import decode

from agents.common.loop import Loop
from rshagent.net.cluster import Cluster
from rshagent.session.engine import Engine
from rshagent.session.exec_request import ExecRequest, Listener
from rshagent.session.target import ExecTarget
from rshagent.stream.status import Exited, Failure
from rshagent.stream.streams import Acknowledged, Opened, Output

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rshagent.stream.streams import Event

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

    @property
    def failure(self) -> Failure:
        outcome, _ = self.end
        assert isinstance(outcome, Failure)
        return outcome

    @property
    def code(self) -> int:
        """The exit code that it ended with."""
        outcome, _ = self.end
        assert isinstance(outcome, Exited)
        return outcome.code


class Bench:
    """An engine on a clock that the test moves, and a cluster whose token and CA are files."""

    def __init__(self, folder: Path, authority: Authority, port: int) -> None:
        self.clock = Clock()
        self.loop = Loop(self.clock)
        cluster = Cluster.load(in_pod(folder, authority, port), self.clock)
        self.engine = Engine(self.loop, cluster, launcher="launcher")

    def execute(self, hearer: Hearer, *, acknowledgement: bytes | None = ACK) -> ExecRequest:
        target = ExecTarget("training", "worker-0", "main")
        return ExecRequest(self.engine, target, [b"true"], hearer, stdin=True, acknowledgement=acknowledgement)

    def run(self) -> Hearer:
        """Execute, to the end."""
        hearer = Hearer()
        self.execute(hearer)
        self.until(lambda: hearer.is_over)
        return hearer

    def open(self) -> tuple[ExecRequest, Hearer]:
        """Execute, until the stream is open."""
        hearer = Hearer()
        execution = self.execute(hearer)
        self.until(lambda: "opened" in hearer.heard)
        return execution, hearer

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        settle(self.loop)

    def until(self, done: Callable[[], bool]) -> None:
        until_on(self.loop, done)


class Serving(Protocol):
    """Have connections served so, and give what to execute by."""

    def __call__(
        self,
        serve: Callable[[socket.socket], None],
        *,
        certificate: tuple[Path, Path] | None = None,
    ) -> AbstractContextManager[Bench]: ...


@pytest.fixture
def serving(tmp_path: Path, authority: Authority, certificate: tuple[Path, Path]) -> Serving:
    """Servers with a certificate of the cluster's CA, except a test that brings another."""
    usual = certificate

    @contextmanager
    def made(
        serve: Callable[[socket.socket], None],
        *,
        certificate: tuple[Path, Path] | None = None,
    ) -> Iterator[Bench]:
        with Server(serve, certificate or usual) as server:
            yield Bench(tmp_path, authority, server.port)

    return made


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
