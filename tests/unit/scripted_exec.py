"""A session whose execs go as a test says, on a clock that the test moves."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from scripted_api import settle

from agents.common.loop import Loop
from agents.common.pods import Pod, parse
from rshagent.call import bootstrap
from rshagent.net.stdio import Stdio
from rshagent.session.engine import Engine
from rshagent.session.session import Session
from rshagent.session.target import ExecTarget, Options
from rshagent.stream.streams import STDOUT, Acknowledged, Opened, Output

if TYPE_CHECKING:
    from collections.abc import Generator

    import pytest

    from rshagent.net.cluster import Cluster
    from rshagent.session.exec_request import Listener
    from rshagent.stream.status import Exited, Failure


def pod(uid: str) -> Pod:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return parse({"metadata": {"name": "worker-0", "uid": uid}, "status": ready})


GRACE_S = 1.0


def lone_engine() -> Engine:
    """An engine in a cluster that is not there."""
    return Engine(Loop(), cast("Cluster", SimpleNamespace(namespace="training")), launcher="launcher")


def unheard_session(engine: Engine, mark: bootstrap.Mark, container: str | None, options: Options) -> Session:
    """A session that reads and writes /dev/null."""
    stdin, stdout, stderr = (os.open(os.devnull, os.O_RDWR) for _ in range(3))
    stdio = Stdio(engine.loop, stdin, stdout, stderr, reads_stdin=False)
    target = ExecTarget("training", mark.pod, container)
    return Session(engine, target, mark, stdio, options, lambda _: None, lambda _: None)


MARK = bootstrap.Mark("launcher", "worker-0", "instance", "0123456789abcdef")


class Exec:
    """An exec that goes as the test says."""

    def __init__(self, command: list[bytes], listener: Listener, *, is_start: bool) -> None:
        self.script, self.is_start, self._listener = command[2], is_start, listener
        self.is_behind = self.is_silent = self.is_closed = False
        self.may_run = self.is_confirmed = self.is_broken = False
        self.is_asked = True
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        if self.is_broken:  # sending is what finds that
            self.end()

    def close(self) -> None:
        self.is_closed = True

    def resume(self) -> None:
        pass

    def open(self) -> None:
        self.may_run = True
        self._listener.exec_event(Opened())

    def acknowledge(self, pid: int = 42) -> None:
        self._listener.exec_event(Acknowledged(pid))

    def stall(self) -> None:
        self._listener.exec_stalled()

    def write(self, data: bytes, channel: int = STDOUT) -> None:
        self._listener.exec_event(Output(channel, memoryview(data)))

    def pause(self) -> None:
        pass

    def answer(self, line: str) -> None:
        self.write(f"{line}\n".encode())

    def end(self, outcome: Exited | Failure | None = None) -> None:
        self._listener.exec_ended(outcome, "the connection was lost")


class Bench:
    """A session in a cluster that is not there, on a clock that the test moves."""

    def __init__(self, stdin: int | None = None, text: bytes = b"true", stdout: int | None = None) -> None:
        self.now = 1000.0
        self.loop = Loop(lambda: self.now)
        self.engine = Engine(self.loop, cast("Cluster", SimpleNamespace(namespace="training")), launcher="launcher")
        self.execs: list[Exec] = []
        self.ends: list[Session] = []
        out, self._theirs = os.pipe()
        self.stderr = os.fdopen(out, "rb")
        null = os.open(os.devnull, os.O_RDWR)
        stdio = Stdio(
            self.loop,
            os.dup(null) if stdin is None else stdin,
            null if stdout is None else stdout,
            self._theirs,
            reads_stdin=stdin is not None,
        )
        target = ExecTarget("training", "worker-0", "main")
        self.session = Session(self.engine, target, MARK, stdio, Options(), self.ends.append, lambda _: None)
        self._text = text

    def execute(
        self,
        _engine: Engine,
        _target: ExecTarget,
        command: list[bytes],
        listener: Listener,
        *,
        stdin: bool,
        acknowledgement: bytes | None,
    ) -> Exec:
        self.execs.append(Exec(command, listener, is_start=acknowledgement is not None))
        return self.execs[-1]

    def start(self) -> Exec:
        self.session.start(self._text)
        return self.execs[-1]

    def wait(self, seconds: float) -> None:
        """Let time pass; what the loop does then may need more of it."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 0.2, end)
            settle(self.loop)

    def ask(self) -> Exec:
        """Return the exec that asks after the command, which has just been begun."""
        control = self.execs[-1]
        assert not control.is_start
        control.open()
        assert control.sent == [b"ask\n"]
        return control

    def run(self) -> Exec:
        """Start, up to the acknowledgement."""
        start = self.start()
        start.open()
        start.acknowledge()
        return start

    def lose(self, outcome: Exited | None = None) -> None:
        """Start, and lose the stream before the acknowledgement."""
        start = self.start()
        start.open()
        start.end(outcome)

    def hang(self) -> Exec:
        """Start, and have the stream hang when the command has said that its end is a success."""
        start = self.run()
        start.is_confirmed = True
        start.stall()
        return start

    def message(self) -> Exec:
        """Return the exec that passes a signal on to a command that is just being started."""
        self.start().acknowledge()
        self.session.signal(10)
        messenger = self.execs[-1]
        messenger.open()
        return messenger

    def end_processes(self, name: str = "TERM") -> None:
        """Let the grace pass, and have the session's processes ended."""
        self.wait(GRACE_S)
        self.reap(name).answer("left 0 0")

    def reap(self, name: str = "TERM") -> Exec:
        """Return the exec that ends the session's processes, which has just been begun."""
        control = self.execs[-1]
        assert not control.is_start
        control.open()
        assert control.sent == [f"signal {name}\n".encode()]
        return control

    @property
    def said(self) -> str:
        """What an ended session has written to stderr."""
        assert self.ends
        return self.stderr.read().decode()

    @property
    def starts(self) -> int:
        return sum(each.is_start for each in self.execs)

    @property
    def end(self) -> tuple[int, str]:
        (session,) = self.ends
        return session.facts.code, session.facts.reason


def benches(
    monkeypatch: pytest.MonkeyPatch, stdin: int | None = None, text: bytes = b"true", stdout: int | None = None
) -> Generator[Bench, None, None]:
    bench = Bench(stdin, text, stdout)
    # A delay's jitter is chance, and where 59 s end must not be.
    monkeypatch.setattr("rshagent.net.retry.os", SimpleNamespace(urandom=lambda size: b"\x80" + bytes(size - 1)))
    monkeypatch.setattr("rshagent.session.wire.ExecRequest", bench.execute)
    monkeypatch.setattr("rshagent.session.control.ExecRequest", bench.execute)
    try:
        yield bench
    finally:
        bench.session.leave()
        bench.stderr.close()
