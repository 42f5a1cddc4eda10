"""A launcher's command, which begins when delivery says so."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from ssh_pods import PATH, PATIENCE_S, Pods, helpers, needs_pods, pods

from delivery.sshd.launcher import StartGate
from tests.processes import catches
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["helpers", "pods"]

ENVIRONMENT = {"PATH": PATH, "ASAN_OPTIONS": "detect_leaks=0:exitcode=99"}


class Waiting:
    """sshd-start in a folder of its own, as it waits."""

    def __init__(self, helper: str, folder: Path) -> None:
        self.folder = folder
        self._program = str(folder / "sshd-start")
        shutil.copy(helper, self._program)

    def start(self, *words: str, file_size: int | None = None) -> subprocess.Popen[str]:
        limited = [] if file_size is None else ["prlimit", f"--fsize={file_size}"]
        return subprocess.Popen(
            [*limited, self._program, "--when-ready", *words],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def go(self) -> None:
        """What delivery writes when all answer."""
        self.give("ready", "go")

    def give(self, name: str, text: str) -> None:
        part = self.folder / "part"
        part.write_text(text)
        part.rename(self.folder / name)

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err


@pytest.fixture
def waiting(helpers: dict[str, str], tmp_path: Path) -> Waiting:
    return Waiting(helpers["sanitized"], tmp_path)


def test_the_command_begins_when_the_sshds_answer(waiting: Waiting) -> None:
    process = waiting.start("sh", "-c", 'echo "$$ $0 ($1)"', "a b", "")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    waiting.go()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, f"{process.pid} a b ()\n", "")  # the same process, each word as it was


def test_a_command_that_is_started_again_waits_for_a_word_of_its_own(waiting: Waiting) -> None:
    ready = waiting.folder / "ready"
    waiting.go()
    assert waiting.run("sh", "-c", "exit 7") == (7, "", "")
    assert ready.read_text() == "taken"
    process = waiting.start("sh", "-c", "exit 8")
    until(lambda: ready.read_text() == "again", "it asks for another")
    assert process.poll() is None
    waiting.go()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 8


def test_one_that_is_started_again_while_it_asks_goes_on_waiting(waiting: Waiting) -> None:
    waiting.give("ready", "again")
    process = waiting.start("true")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    waiting.go()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.parametrize("word", ["go", "taken"])
def test_one_that_is_ended_as_it_writes_leaves_a_word_for_the_next(word: str, waiting: Waiting) -> None:
    waiting.give("ready", word)
    process = waiting.start("true", file_size=0)
    assert process.wait(PATIENCE_S) == -signal.SIGXFSZ
    process.communicate()
    assert (waiting.folder / "ready").read_text() == word


@pytest.mark.parametrize("line", ["pi-worker-0 not in DNS yet 30 s", "", "…" * 2000])
def test_a_wait_that_failed_ends_the_container_so(line: str, waiting: Waiting) -> None:
    waiting.give("failed", f"24\n{line}")
    code, out, err = waiting.run("sh", "-c", "echo began")
    assert (code, out) == (24, "")
    assert err.startswith("sshd-start: " + line[:1000])
    assert err.endswith("\n")
    assert (waiting.folder / "failed").read_text() == ""  # taken


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_wait(number: int, code: int, waiting: Waiting) -> None:
    process = waiting.start("true")
    until(lambda: catches(process.pid, number), "it waits")
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == code
    process.communicate()


def test_the_command_has_the_signals_as_they_were(waiting: Waiting) -> None:
    waiting.go()
    process = waiting.start("sh", "-c", "echo there; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    process.terminate()
    assert process.wait(PATIENCE_S) == -signal.SIGTERM
    process.communicate()


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        ("no-such-mpirun", 127, "No such file or directory"),
        ("/no/such", 127, "No such file or directory"),
        ("/etc/passwd", 126, "Permission denied"),
    ],
)
def test_a_command_that_is_not_there(command: str, code: int, why: str, waiting: Waiting) -> None:
    waiting.go()
    assert waiting.run(command, "its-argument") == (code, "", f"sshd-start: {command} can't be run: {why}\n")


def test_no_command(waiting: Waiting) -> None:
    assert waiting.run()[0] == 2


@needs_pods
@pytest.mark.parametrize(
    ("user", "uid", "run_as"), [("named", 1000, None), ("unknown", 65532, 1000)], ids=["named", "unknown"]
)
def test_why_is_in_the_termination_log_and_is_taken(user: str, uid: int, run_as: int | None, pods: Pods) -> None:
    variables = {"MPI_SSH_ROLE": "launcher", "MPI_AGENT_STAYS": "true", "MPI_SSH_USER": user}
    pod = pods.new(uid=uid, run_as=run_as, variables=variables)
    word, failed = StartGate(f"{pod.volume}/run"), f"{pod.volume}/run/failed"
    word.failed(23, "pi-worker-0 can't be reached")
    os.chown(failed, uid, uid)
    assert pod.refusal("--when-ready", "true") == (23, "pi-worker-0 can't be reached")
    assert os.path.getsize(failed) == 0
    word.until_taken()
