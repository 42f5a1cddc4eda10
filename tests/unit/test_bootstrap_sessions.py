"""Sessions under every shell this machine has: found by their marks, asked after, and ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from shell_places import ENVIRONMENT, LAUNCHER, MARK, Place, place

from rshagent.call import bootstrap
from rshagent.call.bootstrap import Mark, Marks, acknowledgement, control, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["place"]

EARLIER = Mark(LAUNCHER, "pod-0", "10-22", "earlier")
CURRENT = Mark(LAUNCHER, "pod-0", "11-22", "current")
OTHER_POD = Mark(LAUNCHER, "pod-1", "10-22", "elsewhere")
TREE = "sleep 1000 & setsid sleep 1000 & (exec sleep 1000) & echo ready; wait; wait; sleep 1000"


class Session:
    """A request that runs, with its acknowledged pid; ends with the test."""

    def __init__(self, place: Place, mark: Mark, text: bytes, **options: Any) -> None:
        self.pod = mark.pod
        command = place.placed(request(text, mark, **options).command)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        assert self.process.stderr
        line = self.process.stderr.readline()
        assert line.startswith(acknowledgement(mark.session) + b" ")
        self.pid = int(line.split()[-1])

    def line(self) -> bytes:
        assert self.process.stdout
        return self.process.stdout.readline()

    def close(self) -> None:
        """End what is left even if marks don't work, without waiting for who holds the pipes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


class Asking:
    """A control script that runs."""

    def __init__(self, place: Place, mark: Mark, pid: int | None) -> None:
        self.process = subprocess.Popen(
            place.placed(control(mark, pid)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )

    def __call__(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().rstrip("\n")
        # A container runtime may end the stdin of a command that closes its stderr (containerd does).
        assert select.select([self.process.stderr], [], [], 0) == ([], [], []), "stderr is closed, or not empty"
        return answer

    def until(self, line: str, answer: str) -> None:
        """Ask until the answer comes: processes end a moment after they were signalled."""
        deadline = time.monotonic() + 60
        while (said := self(line)) != answer:
            assert time.monotonic() < deadline, f"{line}: {said}, not {answer}"

    def close(self) -> None:
        stdout, stderr = self.process.communicate(b"end\n")
        assert (stdout, stderr, self.process.returncode) == (b"", b"", 0)


class Worker:
    """Starts sessions and asks after them in one place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.opened: list[Session | Asking] = []

    def start(self, text: str, mark: Mark = MARK, **options: bool) -> Session:
        session = Session(self.place, mark, text.encode(), **options)
        self.opened.append(session)
        return session

    def ask(self, pid: int | None, mark: Mark = MARK) -> Asking:
        asking = Asking(self.place, mark, pid)
        self.opened.append(asking)
        return asking


@pytest.fixture
def worker(place: Place) -> Iterator[Worker]:
    worker = Worker(place)
    yield worker
    for pod in {session.pod for session in worker.opened if isinstance(session, Session)}:
        worker.ask(None, Marks(LAUNCHER, pod))("signal KILL")
    for opened in reversed(worker.opened):
        opened.close()


@pytest.mark.parametrize("known", [True, False], ids=["pid known", "pid unknown"])
def test_tree_is_signalled_and_its_status_kept(worker: Worker, known: bool) -> None:
    session = worker.start(TREE)
    assert session.line() == b"ready\n"
    ask = worker.ask(session.pid if known else None)
    assert ask("ask") == "alive"
    ask.until("count", "left 6 4")  # one that is just becoming another program has no environment for a moment
    assert ask("signal TERM") == "left 6 4"
    ask.until("count", "left 0 0")
    assert session.process.wait() == 143
    assert ask("ask") == "exit 143"
    assert ask("nonsense") == "unknown"


def test_status_is_kept_if_the_container_runtime_kills_the_exec(worker: Worker, tmp_path: Path) -> None:
    """containerd 2 does so when it loses the kubelet or the API server."""
    session = worker.start(f"echo ready; until [ -e {tmp_path}/gate ]; do :; done; exit 6")
    assert session.line() == b"ready\n"
    session.process.kill()
    session.process.wait()
    ask = worker.ask(session.pid)
    assert ask("ask") == "alive"
    (tmp_path / "gate").touch()
    ask.until("ask", "exit 6")


def test_daemon_left_behind(worker: Worker, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    session = worker.start(f"setsid sh -c 'echo ready; read x <>{tmp_path}/gate' 2>/dev/null & exit 6")
    assert session.line() == b"ready\n"  # it becomes no other program any more
    assert session.process.wait() == 6
    ask = worker.ask(session.pid)
    assert ask("ask") == "exit 6"
    ask.until("count", "left 1 1")
    assert ask("signal KILL") == "left 1 1"
    ask.until("count", "left 0 0")


def test_bootstrap_killed_is_gone(worker: Worker) -> None:
    session = worker.start("echo ready; sleep 1000; :")  # its shell stays: it replaces itself by the last command only
    assert session.line() == b"ready\n"
    known, unknown = worker.ask(session.pid), worker.ask(None)
    os.kill(session.pid, signal.SIGKILL)
    assert session.process.wait() in (137, 9)  # 9 of ksh93's 265
    assert known("ask") == "gone"
    assert unknown("ask") == "alive"
    assert unknown("signal KILL") in ("left 1 1", "left 2 2")  # its sleep may be just beginning
    unknown.until("signal KILL", "left 0 0")
    unknown.until("ask", "gone")


def test_what_is_acknowledged_and_not_started_yet_is_left(worker: Worker) -> None:
    """Whoever ends a session believes it where nothing is."""
    marks = [Mark(LAUNCHER, "pod-0", "11-22", f"session-{number}") for number in range(8)]
    asking = [worker.ask(None, mark) for mark in marks]
    for ask in asking:
        assert ask("count") == "left 0 0"
    for mark, ask in zip(marks, asking, strict=True):
        worker.start("exec sleep 1000", mark)
        assert ask("count") != "left 0 0"
        ask.until("signal KILL", "left 0 0")


def test_never_started_is_gone(worker: Worker) -> None:
    assert worker.ask(None)("ask") == "gone"
    assert worker.ask(1)("ask") == "gone"


def test_control_ends_with_its_stdin(worker: Worker) -> None:
    ask = worker.ask(None)
    ask.process.stdin.close()  # type: ignore[union-attr]
    assert ask.process.wait() == 0
    worker.opened.remove(ask)
    ask.process.stdout.close()  # type: ignore[union-attr]
    ask.process.stderr.close()  # type: ignore[union-attr]


def test_sweep_ends_earlier_instances_only(worker: Worker) -> None:
    old, elsewhere = worker.start(TREE, EARLIER), worker.start(TREE, OTHER_POD)
    current = worker.start("echo ready; sleep 1000", CURRENT)
    for session in (old, elsewhere, current):
        assert session.line() == b"ready\n"
    new = worker.start("echo ready; read x", sweep=True)
    assert new.line() == b"ready\n"
    assert old.process.wait() in (-signal.SIGKILL, 137)  # whichever of its two is found first
    worker.ask(None, EARLIER).until("count", "left 0 0")
    assert elsewhere.process.poll() is None
    assert current.process.poll() is None
    worker.ask(None, OTHER_POD).until("count", "left 6 4")


def test_second_attempt_ends_the_first(worker: Worker) -> None:
    first = worker.start(TREE)
    assert first.line() == b"ready\n"
    other = worker.start("echo ready; sleep 1000", CURRENT)
    assert other.line() == b"ready\n"
    second = worker.start("echo ready; sleep 1000; exit 9", attempt=True)
    assert second.line() == b"ready\n"
    assert first.process.wait() in (-signal.SIGKILL, 137)  # whichever of its two is found first
    assert other.process.poll() is None
    ask = worker.ask(second.pid)
    assert ask("ask") == "alive"
    ask.until("signal TERM", "left 0 0")  # once is not enough for what a shell forks meanwhile
    assert second.process.wait() == 143
    assert ask("ask") == "exit 143"
    assert worker.ask(first.pid)("ask") == "gone"


def test_other_hostnames_are_passed_over(worker: Worker, tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--uts"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)
    try:
        session = worker.start(f"{' '.join(unshare)} sh -c 'exec <{gate}; echo ready; read x; exit 3'; exit $?")
        assert session.line() == b"ready\n"
        assert worker.ask(session.pid)("count") == "left 3 1"
    finally:
        os.write(opened, b"open\n")
        os.close(opened)
    assert session.process.wait() == 3


def test_control_is_no_session(worker: Worker) -> None:
    """What looks for a mark must not be found by others that look for it."""
    worker.ask(None)("count")
    assert worker.ask(None)("ask") == "gone"
    other = worker.ask(None)
    worker.start("true", attempt=True, sweep=True).process.wait()
    assert other("count") == "left 0 0"


def test_a_process_that_ends_while_it_is_read_is_read_no_further(place: Place, tmp_path: Path) -> None:
    """bash's read keeps what its variable held when read(2) fails, here of a folder: it looped for ever."""
    (tmp_path / "process" / "environ").mkdir(parents=True)
    text = f'{bootstrap.marked("never) :")}_l=before;m "$1" environ;echo $?'
    words = [str(place.sh), "-c", text, "sh", str(tmp_path / "process")]
    done = subprocess.run(words, check=False, capture_output=True, timeout=20)
    assert done.stdout == b"1\n"
