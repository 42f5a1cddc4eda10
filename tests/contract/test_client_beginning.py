"""Signals that meet an agent when it has just begun: it ends by an exit code, 128 + n, and has started nothing."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import TYPE_CHECKING

import pytest
from scripted_hub import FIXTURES, ended, in_both_builds, in_static_build, output

from rshagent.native import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from pathlib import Path

    from scripted_hub import Clients, ScriptedHub

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
