"""Signals that meet an agent when it has just begun: it ends by an exit code, 128 + n, and has started nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from running import Direct, environment, spawn
from scripted_hub import FIXTURES, ended, in_both_builds, in_static_build, output

from rshagent.native import protocol
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from scripted_hub import Clients, ScriptedHub

    from agents.playground.cluster import Cluster

build, program, hub, clients = FIXTURES

ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGXCPU, signal.SIGRTMAX]
_LIBC = ctypes.CDLL(None, use_errno=True)
_TRACEME, _DETACH, _SYSCALL, _SETOPTIONS, _SYSCALL_INFO = 0, 17, 24, 0x4200, 0x420E  # ptrace(2)
_ENTRY = _TRACESYSGOOD = 1
_ACCESS = {"x86_64": 21, "aarch64": 48}[os.uname().machine]  # the client's first look at where a hub would be


def already_sent(number: int, *, blocked: bool = True) -> Callable[[], None]:
    """What a child does before it becomes the agent: a blocked signal is pending then, over execve(2)."""

    def send() -> None:
        if blocked:
            signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        else:
            signal.signal(number, signal.SIG_IGN)
        os.kill(os.getpid(), number)

    return send


def assert_nobody_called(hub: ScriptedHub) -> None:
    hub.listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        hub.listener.accept()


@in_both_builds
@pytest.mark.parametrize("number", ENDING)
def test_one_that_came_before_its_start_starts_nothing(clients: Clients, hub: ScriptedHub, number: int) -> None:
    assert ended(clients.start(before=already_sent(number))) == (128 + number, "")
    assert_nobody_called(hub)


@in_both_builds
def test_one_that_the_launcher_ignores_is_ignored_from_the_beginning(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start(before=already_sent(signal.SIGHUP, blocked=False))
    connection = hub.accept()
    connection.start()
    connection.exit(3)
    assert ended(client) == (3, "")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGALRM])
def test_one_of_the_applications_waits_for_the_hub(clients: Clients, hub: ScriptedHub, number: int) -> None:
    client = clients.start(before=already_sent(number))
    connection = hub.accept()
    connection.start()
    assert connection.signal() == number
    connection.exit(3)
    assert ended(client) == (3, "")


@in_static_build  # the sanitizers' own start looks at files
@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("calls", [{_ACCESS}, range(1000)], ids=["look", "system call"])
def test_one_that_comes_before_its_first(
    program: Path, hub: ScriptedHub, tmp_path: Path, calls: Container[int], number: int
) -> None:
    """And so does not kill it: the C library's own start makes a dozen system calls."""
    child = os.fork()
    if child == 0:
        try:
            _LIBC.ptrace(_TRACEME, 0, None, None)
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            os.execve(program, ["rshagent", "worker-0", "true"], {"MPI_AGENT_SOCKET": str(hub.path)})
        finally:
            os._exit(99)
    os.waitpid(child, 0)
    assert _LIBC.ptrace(_SETOPTIONS, child, None, _TRACESYSGOOD) == 0
    info = (ctypes.c_uint64 * 11)()
    while not (info[0] & 0xFF == _ENTRY and info[3] in calls):
        assert _LIBC.ptrace(_SYSCALL, child, None, None) == 0
        _, status = os.waitpid(child, 0)
        assert os.WIFSTOPPED(status), status
        assert _LIBC.ptrace(_SYSCALL_INFO, child, ctypes.c_void_p(ctypes.sizeof(info)), info) > 0
    os.kill(child, number)
    assert _LIBC.ptrace(_DETACH, child, None, None) == 0
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + number
    assert_nobody_called(hub)


SHOW_MASK = "import signal; print(sorted(map(int, signal.pthread_sigmask(0, []))))"


@pytest.mark.parametrize("blocked", [[], [signal.SIGUSR1], [signal.SIGTERM, signal.SIGUSR2]])
def test_direct_mode_gets_the_launchers_mask(clients: Clients, tmp_path: Path, blocked: list[int]) -> None:
    direct = tmp_path / "direct"
    direct.write_text(f"#!{sys.executable}\n{SHOW_MASK}\n")
    direct.chmod(0o755)
    client = clients.start(
        env={"MPI_AGENT_SOCKET": "/nowhere/hub.sock", "MPI_AGENT_DIRECT": str(direct)},
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked),
    )
    assert output(client) == (0, f"{sorted(map(int, blocked))}\n".encode())


def test_a_signal_while_local_is_asked_for_runs_nothing(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    client.send_signal(signal.SIGSTOP)
    os.waitpid(client.pid, os.WUNTRACED)
    connection.finish(protocol.local_message(b"echo ran", null_stdin=False))
    client.send_signal(signal.SIGTERM)
    client.send_signal(signal.SIGCONT)
    assert output(client) == (143, b"")


# ---- direct mode ----


@pytest.fixture
def direct(cluster: Cluster, tmp_path: Path) -> Direct:
    return Direct(environment(cluster, tmp_path, ["worker-0", "worker-1"]))


@pytest.mark.parametrize("number", ENDING)
def test_direct_mode_that_was_told_to_end_starts_nothing(cluster: Cluster, direct: Direct, number: int) -> None:
    """As direct_start.c calls it: all signals are blocked, and those that came are pending."""
    cluster.reset_stats()
    environ = {**direct.environ, "MPI_AGENT_SIGNAL_MASK": "0"}
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            os.kill(os.getpid(), number)
            os.execve(direct.argv[0], [*direct.argv, "-n", "worker-0", "echo ran"], environ)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + number
    assert not cluster.stats()["requests"].get("exec")


def test_direct_mode_ends_by_no_signal(cluster: Cluster, direct: Direct) -> None:
    with direct:
        for number in (signal.SIGXCPU, signal.SIGVTALRM, signal.SIGIO, signal.SIGRTMIN):
            process = spawn(direct, ["-n", "worker-0", "sleep 1000"])
            until(lambda: cluster.leftovers("worker-0"), "the command runs")
            process.send_signal(number)
            assert process.wait(30) == 128 + number
            until(lambda: not cluster.leftovers("worker-0"), "it is gone")


def test_direct_mode_ignores_what_its_launcher_ignores(cluster: Cluster, direct: Direct) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with direct:
            process = spawn(direct, ["-n", "worker-0", "until [ -e go ]; do sleep 0.1; done; rm go; exit 5"])
            until(lambda: cluster.leftovers("worker-0"), "the command runs")
            process.send_signal(signal.SIGHUP)
            with open(cluster.pod_folder("worker-0") + "/home/go", "w"):
                pass
            assert process.wait(30) == 5
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("mask", ["0", "200", "nonsense"])
def test_a_command_of_the_launchers_own_gets_its_mask(direct: Direct, mask: str) -> None:
    environ = {**direct.environ, "MPI_AGENT_SIGNAL_MASK": mask}
    with direct:
        process = spawn(direct, ["-n", "localhost", f"exec {sys.executable} -c '{SHOW_MASK}'"], environ, stdout=-1)
        out, _ = process.communicate(timeout=30)
    assert out == (b"[10]\n" if mask == "200" else b"[]\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_direct_mode_writes_to_no_file_of_its_own(direct: Direct, closed: str) -> None:
    """Its first files would take the place of closed ones; 141 would say that stdout is broken."""
    script = f'exec "$@" {closed}'
    with direct:
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *direct.argv, "worker-0", "cat; echo out; echo err >&2; sleep 0.3; exit 9"],
            env=direct.environ, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30,
        )  # fmt: skip
    out, err = (b"" if f"{mark}&-" in closed.split() else text for mark, text in ((">", b"out\n"), ("2>", b"err\n")))
    assert (done.returncode, done.stdout, done.stderr) == (9, out, err)
