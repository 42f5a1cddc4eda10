"""The real k8s-launch with agents that are scripts, and with the real agent: the contract of PRRTE's plm/k8sgo."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import WORKERS, WithHub, environment

from rshagent.native import client_build
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agents.playground import Cluster

# As ssh does it: the words after the host are joined by blanks, for a shell.
RUNS = 'host=$1; shift; exec sh -c "$*"'
ENVIRONMENT = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=0:exitcode=99"}
USAGE = "(usage: k8s-launch [-q] [--agent PROGRAM] -f HOSTFILE -- COMMAND...)\n"


@pytest.fixture(scope="module", params=["sanitized"])
def program(request: pytest.FixtureRequest) -> Path:
    return Path(client_build.kept("k8s-launch", client_build.K8S_LAUNCH, sanitize=request.param == "sanitized"))


class Launch:
    """A hostfile, an agent and the program; all that was started is killed at the end."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        self.hostfile = folder / "hostfile"
        self._started: list[subprocess.Popen[str]] = []

    def agent(self, script: str, name: str = "agent") -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def start(self, hosts: str | None, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        if hosts is not None:
            self.hostfile.write_text(hosts)
        process = subprocess.Popen(
            [self.program, "-f", self.hostfile, *words],
            env={**ENVIRONMENT, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(
        self, hosts: str | None, *words: str, environ: Mapping[str, str] | None = None
    ) -> tuple[int, list[str], str]:
        """Return the exit code, the sorted lines of stdout, and stderr."""
        process = self.start(hosts, *words, environ=environ)
        out, err = process.communicate()
        return process.returncode, sorted(out.splitlines()), err

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def launch(tmp_path: Path, program: Path) -> Iterator[Launch]:
    made = Launch(tmp_path, program)
    yield made
    made.close()


HOSTFILES = {
    "hpc-cn-0\nhpc-cn-1\n": ["hpc-cn-0", "hpc-cn-1"],
    "b\na\n": ["b", "a"],
    "a\na": ["a", "a"],
    "a slots=2\nb slots=2 max_slots=4\n": ["a", "b"],
    "a:2\nuser@b:16\n": ["a", "user@b"],
    "# all\n\n  a  # the first\r\n\tb\n": ["a", "b"],
    "10.1.2.3\nfd00::7\nfd00::8 slots=2\n": ["10.1.2.3", "fd00::7", "fd00::8"],
    "a.svc.ns\nns/b\n": ["a.svc.ns", "ns/b"],
}


@pytest.mark.parametrize("hostfile", HOSTFILES)
def test_the_command_runs_once_per_host_with_its_number(launch: Launch, hostfile: str) -> None:
    agent = launch.agent(f'echo "$1"; {RUNS}')
    code, out, _ = launch.run(hostfile, "--agent", agent, "--", "echo", "id", "$PRTE_ESS_K8SGO_ID")
    hosts = HOSTFILES[hostfile]
    assert code == 0
    assert out == sorted([*hosts, *(f"id {number}" for number in range(len(hosts)))])


def test_the_remote_shell_sees_the_words_joined_by_blanks(launch: Launch) -> None:
    prted = [
        "PRTE_PREFIX=/usr;export PRTE_PREFIX;",
        "printf",
        "'%s|'",
        '"$PRTE_ESS_K8SGO_ID"',
        '"a  b"',
        "$PRTE_PREFIX",
        "*",
    ]
    code, out, _ = launch.run(
        "a\n", "--agent", launch.agent(f"cd /proc/self/net && cd {launch.folder}; {RUNS}"), "--", *prted
    )
    assert (code, out) == (0, ["0|a  b|/usr|agent|hostfile|"])


def test_the_agents_stdin_is_at_its_end(launch: Launch) -> None:
    assert launch.run("a\nb\n", "--agent", launch.agent(RUNS), "--", "cat")[:2] == (0, [])


ERRORS = {
    "no such file": (None, "hostfile can't be read: No such file or directory"),
    "no host": ("# nothing\n\n", "hostfile names no host"),
    "an option": ("a\n-oProxyCommand=x\n", "hostfile, line 2: this can't be a host: -oProxyCommand=x"),
    "an option behind a user": ("u@-x\n", "hostfile, line 1: this can't be a host: u@-x"),
    "no name": ("u@\n", "hostfile, line 1: this can't be a host: u@"),
    "a shell's words": ("a;reboot\n", "hostfile, line 1: this can't be a host: a;reboot"),
    "no number": ("\na:two\n", "hostfile, line 2: slots must be a number after a"),
    "no number of slots": ("a slots=two\n", "hostfile, line 1: expected name=number, found slots=two"),
    "two hosts": ("a b\n", "hostfile, line 1: expected name=number, found b"),
    "no text": ("\x1b[2J\n", "hostfile, line 1: this can't be a host: ?[2J"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_wrong_hostfile_is_one_line_and_starts_nothing(launch: Launch, error: str) -> None:
    content, text = ERRORS[error]
    code, _, err = launch.run(content, "--agent", launch.agent("touch started"), "--", "x")
    assert (code, err) == (2, f"k8s-launch: {launch.folder}/{text}\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--", "x"], "no HOSTFILE"),
        (["-f"], "-f needs a HOSTFILE"),
        (["-f", "x"], "no COMMAND after --"),
        (["-f", "x", "--"], "no COMMAND after --"),
        (["-f", "x", "prted"], "an unknown option, or no -- before COMMAND"),
    ],
)
def test_wrong_usage_is_one_line(program: Path, words: list[str], text: str) -> None:
    done = subprocess.run([program, *words], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"k8s-launch: {text} {USAGE}")


@pytest.mark.parametrize(
    ("environ", "words", "expected"),
    [
        ({}, [], "beside"),
        ({"PRTE_MCA_plm_rsh_agent": "old"}, [], "old"),
        ({"PRTE_MCA_plm_rsh_agent": "old", "PRTE_MCA_plm_ssh_agent": "new"}, [], "new"),
        ({"PRTE_MCA_plm_ssh_agent": "new"}, ["--agent", "given"], "given"),
        ({"PRTE_MCA_plm_ssh_agent": ""}, [], "beside"),
        ({"PRTE_MCA_plm_ssh_agent": "new -x -o Y : other"}, [], "new -x -o Y"),
    ],
)
def test_which_agent(launch: Launch, program: Path, environ: dict[str, str], words: list[str], expected: str) -> None:
    for name in ("old", "new", "given"):
        launch.agent(f'echo {name} "$@"', name)
    beside = program.parent / "kubexec.sh"
    beside.write_text('#!/bin/sh\necho beside "$@"\n')
    beside.chmod(0o755)
    path = {"PATH": f"{launch.folder}:{os.environ['PATH']}"}
    code, out, _ = launch.run("a\n", *words, "--", "prted", environ={**path, **environ})
    assert (code, out) == (0, [f"{expected} a export PRTE_ESS_K8SGO_ID=0; prted"])


@pytest.mark.parametrize(
    ("mode", "code", "why"), [(None, 127, "No such file or directory"), (0o644, 126, "Permission denied")]
)
def test_an_agent_that_can_not_be_run(launch: Launch, mode: int | None, code: int, why: str) -> None:
    agent = launch.folder / "agent"
    if mode is not None:
        agent.write_text("#!/bin/sh\n")
        agent.chmod(mode)
    line = (
        f"k8s-launch: a (id 0): the agent {agent} can't be run: {why}; name one by --agent or PRTE_MCA_plm_ssh_agent\n"
    )
    assert launch.run("a\nb\n", "--agent", str(agent), "--", "x") == (code, [], line)


def test_lines_name_each_host_and_never_the_command(launch: Launch) -> None:
    launched = ["--agent", launch.agent(RUNS), "--", "secret=1; exit $PRTE_ESS_K8SGO_ID"]
    code, _, err = launch.run("a\nb\n", *launched)
    lines = ["a (id 0): ended with 0", "a (id 0): started", "b (id 1): ended with 1", "b (id 1): started"]
    assert (code, sorted(err.splitlines())) == (1, [f"k8s-launch: {line}" for line in lines])
    assert launch.run("a\nb\n", "-q", *launched) == (1, [], "k8s-launch: b (id 1): ended with 1\n")


def test_the_first_failure_in_time_is_the_exit_code(launch: Launch) -> None:
    """`a` and `c` end only when `b` has been seen to end; the launch waits for all."""
    os.mkfifo(launch.folder / "go")
    agent = launch.agent(f"case $1 in a) cat {launch.folder}/go; exit 3;; b) exit 5;; esac")
    process = launch.start("a\nb\nc\n", "-q", "--agent", agent, "--", "x")
    assert process.stderr is not None
    assert process.stderr.readline() == "k8s-launch: b (id 1): ended with 5\n"
    assert process.poll() is None
    (launch.folder / "go").write_text("")
    assert process.stderr.readline() == "k8s-launch: a (id 0): ended with 3\n"
    assert process.wait() == 5


def test_an_agent_that_is_killed_is_a_failure(launch: Launch) -> None:
    line = "k8s-launch: a (id 0): its agent was ended by signal 9\n"
    assert launch.run("a\n", "-q", "--agent", launch.agent("kill -9 $$"), "--", "x") == (137, [], line)


WAITS = """sleep 600 >/dev/null 2>&1 &
trap 'kill $!; echo {0}; exit {1}' {0}
echo ready
wait"""


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_go_to_all_agents(launch: Launch, name: str) -> None:
    process = launch.start("a\nb\n", "-q", "--agent", launch.agent(WAITS.format(name, 40)), "--", "x")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert [process.stdout.readline() for _ in range(2)] == [f"{name}\n"] * 2
    assert process.wait() == 40


def test_signals_reach_the_children_of_an_agent(launch: Launch) -> None:
    """A shell that ends by a signal does not end the program that it waits for."""
    agent = launch.agent("echo $$\nsleep 600 >/dev/null 2>&1; exit")
    process = launch.start("a\n", "-q", "--agent", agent, "--", "x")
    assert process.stdout is not None
    group = int(process.stdout.readline())
    until(lambda: len(members(group)) == 2, "the agent waits for its child")
    process.terminate()
    assert process.wait() == 143
    until(lambda: not members(group), "both have ended")


def members(group: int) -> list[int]:
    """All processes of a process group but zombies."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] != "Z":
                    found.append(int(entry))
    return found


def test_a_signal_that_the_caller_ignores_is_ignored(launch: Launch) -> None:
    code = """import signal, sys
numbers = {signal.SIGHUP, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
sys.exit(0 if signal.sigwait(numbers) == signal.SIGTERM else 40)"""
    agent = launch.agent(f"exec {sys.executable} -c '{code}'")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        process = launch.start("a\n", "-q", "--agent", agent, "--", "x")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


def test_agents_are_told_to_end_when_the_launch_is_killed(launch: Launch) -> None:
    process = launch.start("a\nb\n", "--agent", launch.agent(WAITS.format("TERM", 0)), "--", "x")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    process.kill()
    assert [process.stdout.readline() for _ in range(2)] == ["TERM\n"] * 2


def test_many_hosts_at_once(launch: Launch) -> None:
    """All agents are there at one moment: each waits for all others."""
    hosts = [f"node-{number}" for number in range(150)]
    seen = launch.folder / "seen"
    seen.mkdir()
    agent = launch.agent(f"touch {seen}/$1; while [ ! -e {launch.folder}/go ]; do sleep 0.1; done")
    process = launch.start("".join(f"{host}\n" for host in hosts), "-q", "--agent", agent, "--", "x")
    until(lambda: len(os.listdir(seen)) == len(hosts), "all agents run")
    (launch.folder / "go").touch()
    assert (process.wait(), process.communicate()[1]) == (0, "")


@pytest.mark.parametrize("program", ["static"], indirect=True)
def test_with_the_real_agent(launch: Launch, cluster: Cluster, client: str, tmp_path: Path) -> None:
    with WithHub(environment(cluster, tmp_path, WORKERS), client, tmp_path) as agent:
        hosts = "".join(f"{worker} slots=2\n" for worker in WORKERS)
        launched = ["-q", "--agent", client, "--", "echo $PRTE_ESS_K8SGO_ID; exit 4"]
        code, out, _ = launch.run(hosts, *launched, environ=agent.environ)
    assert (code, out) == (4, ["0", "1"])
