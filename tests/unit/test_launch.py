"""A launch whose stream ends before the acknowledgement: what it takes for started, and what it starts again."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from scripted_api import settle

from rshagent import bootstrap
from rshagent.engine import Engine
from rshagent.execution import Where
from rshagent.launch import Launch
from rshagent.loop import Loop
from rshagent.pods import Pod, parse
from rshagent.status import Exited, Failure
from rshagent.stdio import Stdio
from rshagent.streams import STDOUT, Opened, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rshagent.cluster import Cluster
    from rshagent.execution import Listener


def pod(uid: str) -> Pod:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return parse({"metadata": {"name": "worker-0", "uid": uid}, "status": ready})


MARK = bootstrap.Mark("launcher", "worker-0", "instance", "0123456789abcdef")


class Exec:
    """An exec that goes as the test says."""

    def __init__(self, command: list[bytes], listener: Listener, *, is_start: bool) -> None:
        self.script, self.is_start, self._listener = command[2], is_start, listener
        self.is_behind = self.is_silent = self.is_closed = False
        self.may_run = self.is_confirmed = False
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.is_closed = True

    def open(self) -> None:
        self.may_run = True
        self._listener.exec_event(Opened())

    def answer(self, line: str) -> None:
        self._listener.exec_event(Output(STDOUT, memoryview(f"{line}\n".encode())))

    def end(self, outcome: Exited | Failure | None = None) -> None:
        self._listener.exec_ended(outcome, "the connection was lost")


class Bench:
    """A launch in a cluster that is not there, on a clock that the test moves."""

    def __init__(self, stdin: int | None = None, text: bytes = b"true") -> None:
        self.now = 1000.0
        self.loop = Loop(lambda: self.now)
        self.engine = Engine(self.loop, cast("Cluster", SimpleNamespace(namespace="training")), launcher="launcher")
        self.execs: list[Exec] = []
        self.ends: list[Launch] = []
        out, self._theirs = os.pipe()
        self._ours = os.fdopen(out, "rb")
        null = os.open(os.devnull, os.O_RDWR)
        stdio = Stdio(self.loop, os.dup(null), null, self._theirs, reads_stdin=False)
        if stdin is not None:
            stdio._stdin = stdin
        where = Where("training", "worker-0", "main")
        self.launch = Launch(self.engine, where, MARK, stdio, self.ends.append, lambda _: None)
        self._text = text

    def execute(
        self,
        _engine: Engine,
        _where: Where,
        command: list[bytes],
        listener: Listener,
        *,
        stdin: bool,
        acknowledgement: bytes | None,
    ) -> Exec:
        self.execs.append(Exec(command, listener, is_start=acknowledgement is not None))
        return self.execs[-1]

    def start(self) -> Exec:
        self.launch.start(self._text)
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

    @property
    def starts(self) -> int:
        return sum(each.is_start for each in self.execs)

    @property
    def end(self) -> tuple[int, str]:
        (launch,) = self.ends
        return launch.code, launch.reason


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield from benches(monkeypatch)


def benches(monkeypatch: pytest.MonkeyPatch, stdin: int | None = None, text: bytes = b"true") -> Iterator[Bench]:
    bench = Bench(stdin, text)
    monkeypatch.setattr("rshagent.launch.Execution", bench.execute)
    monkeypatch.setattr("rshagent.control.Execution", bench.execute)
    yield bench
    bench.launch.abandon()
    bench._ours.close()


LOST = pytest.mark.parametrize("outcome", [None, Exited(0)], ids=["lost", "made-up-success"])


@LOST
def test_one_that_is_found_is_not_started_again(bench: Bench, outcome: Exited | None) -> None:
    start = bench.start()
    start.may_run = True  # and no answer yet: an old kubelet answers when the command has been started
    start.end(outcome)
    assert bench.launch.state == "finding"
    control = bench.ask()
    control.answer("alive")
    assert bench.launch.times.acknowledged == bench.now, "it counts as started"
    for _ in range(30):  # longer than a start may take
        bench.wait(5)
        control.answer("alive")
    control.answer("exit 7")
    assert bench.end == (7, "")
    assert bench.starts == 1


@LOST
def test_one_that_is_not_found_is_started_again(bench: Bench, outcome: Exited | None) -> None:
    start = bench.start()
    start.open()
    start.end(outcome)
    bench.ask().answer("gone")
    bench.wait(1)
    assert bench.starts == 2
    assert b"kill -9" in bench.execs[-1].script, "what the first try may yet have started is ended first"


def test_one_that_has_ended_unheard_is_not_started_again(bench: Bench) -> None:
    start = bench.start()
    start.open()
    start.end()
    bench.ask().answer("exit 0")
    assert bench.end == (0, "")
    assert bench.launch.times.acknowledged, "what it left is known to be there"


def test_one_whose_worker_goes_while_it_is_looked_for_is_started_in_the_next(bench: Bench) -> None:
    bench.engine.pods = {"worker-0": pod("1")}
    start = bench.start()
    start.open()
    start.end()
    bench.engine.pods = {"worker-0": pod("2")}
    bench.engine.pod_changed("worker-0")
    bench.wait(5)
    assert (bench.ends, bench.starts) == ([], 2)


def test_one_that_was_seen_to_run_is_never_started_again(bench: Bench) -> None:
    start = bench.start()
    start.open()
    start.end()
    control = bench.ask()
    control.answer("alive")
    control.answer("gone")
    code, reason = bench.end
    assert code == 255
    assert reason.startswith("the stream was lost, and how the command ended is unknown: it ended in the worker")
    bench.wait(10)
    assert bench.starts == 1


def test_one_that_was_seen_to_run_and_can_not_be_asked_any_more_is_left_alone(bench: Bench) -> None:
    start = bench.start()
    start.open()
    start.end()
    control = bench.ask()
    control.answer("alive")
    control.end()
    bench.wait(bench.engine.limits["settle"] + 1)
    code, reason = bench.end
    assert code == 255
    assert "the worker could not be asked for 60 s" in reason
    assert bench.starts == 1
    assert not any(b"signal" in line for each in bench.execs for line in each.sent), "mpirun may know it"


def test_signals_that_came_before_it_was_found_are_passed_on(bench: Bench) -> None:
    start = bench.start()
    start.open()
    start.end()
    control = bench.ask()
    bench.launch.signal(10)
    assert len(bench.execs) == 2
    control.answer("alive")
    messenger = bench.execs[-1]
    messenger.open()
    assert messenger.sent == [b"signal USR1\n"]


def test_what_was_never_sent_is_not_looked_for_and_leaves_nothing_to_end(bench: Bench) -> None:
    bench.start().end()
    assert bench.launch.state == "backoff"
    while not bench.ends:
        tries = bench.starts
        while bench.starts == tries:
            bench.wait(0.2)
        bench.execs[-1].end()
    assert bench.end[1].startswith("the connection was lost (")
    assert bench.starts == len(bench.execs), "no exec was made to ask or to end anything"


def test_a_text_that_was_never_sent_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for bench in benches(monkeypatch, text=b":" * (bootstrap.SHORT_TEXT + 1)):
        start = bench.start()
        start.may_run = True  # the bootstrap, which waits for its stdin
        start.end()
        assert bench.launch.state == "backoff"


def test_one_whose_stdin_was_in_the_lost_stream_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    for bench in benches(monkeypatch, stdin=reader):
        start = bench.start()
        start.open()
        start.end()
        assert bench.launch.state == "backoff"
    os.close(writer)


def test_a_shell_that_failed_is_the_end(bench: Bench) -> None:
    start = bench.start()
    start.open()
    start.end(Exited(2))
    assert bench.end == (2, "the command did not start (its shell ended with 2)")
