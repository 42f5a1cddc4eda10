"""The real client where there is no hub, where the command runs beside it, and where the system forbids things."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from scripted_hub import FIXTURES, Clients, ScriptedHub, ended, in_static_build, launcher, output

from rshagent.native import protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

build, program, hub, clients = FIXTURES


# ---- where there is no hub ----


def test_a_socket_without_a_folder(clients: Clients, tmp_path: Path) -> None:
    path = tmp_path / "none" / "hub.sock"
    told = (
        f"rshagent: no hub is set up: there is no folder for MPI_AGENT_SOCKET={path}; mount the hub's volume there, or "
        "unset it to have a hub started\n"
    )
    assert ended(clients.start(env={"MPI_AGENT_SOCKET": os.fspath(path)})) == (255, told)


@pytest.mark.skipif(os.path.exists("/run/mpi-agents"), reason="a hub is set up on this machine")
def test_no_hub_and_nothing_to_start_one_by(clients: Clients) -> None:
    told = (
        "rshagent: no hub is set up: there is no folder for /run/mpi-agents/hub.sock, and "
        f"{clients.program.parent}/rshagent-direct can't be run instead (No such file or directory); mount the hub's "
        "volume there, or deliver the tool direct\n"
    )
    assert ended(clients.start(env={"MPI_AGENT_SOCKET": ""})) == (255, told)


def test_the_socket_may_come_later(clients: Clients, hub: ScriptedHub) -> None:
    hub.stop()  # its file stays, and refuses
    client = clients.start()
    hub.listen()
    connection = hub.accept()
    connection.start()
    connection.exit(1)
    assert ended(client) == (1, "")


def test_a_path_longer_than_a_socket_can_have(clients: Clients, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 108)
    expected = f"rshagent: the path of the hub's socket has more than 107 bytes: {path}\n"
    assert ended(clients.start(env={"MPI_AGENT_SOCKET": os.fspath(path)})) == (255, expected)


# ---- LOCAL ----


def test_local_becomes_the_shell(clients: Clients, hub: ScriptedHub, tmp_path: Path) -> None:
    client = clients.start(stdin=subprocess.PIPE, cwd=tmp_path, env={"X": "y"})
    hub.accept().finish(protocol.local_message(b'read line; echo "$0|$#|$X|$line|"; pwd; exit 9', null_stdin=False))
    expected = f"/bin/sh|0|y|from stdin|\n{tmp_path}\n"
    assert output(client, b" from stdin\n") == (9, expected.encode())


def test_local_can_have_no_stdin(clients: Clients, hub: ScriptedHub) -> None:
    ours, theirs = os.pipe()  # stays open: a `read` of it would wait for ever
    client = clients.start(stdin=ours)
    hub.accept().finish(protocol.local_message(b"read line && echo $line", null_stdin=True))
    assert ended(client) == (1, "")
    os.close(ours)
    os.close(theirs)


def test_local_gets_the_launchers_signals_back_and_no_other_file(clients: Clients, hub: ScriptedHub) -> None:
    listing = f"exec {sys.executable} -c 'import os; print(os.listdir(\"/proc/self/fd\"))'"
    client = clients.start()
    hub.accept().finish(protocol.local_message(listing.encode(), null_stdin=False))
    assert output(client) == (0, b"['0', '1', '2', '3']\n")  # 3 is the listing's own
    mask = f"exec {sys.executable} -c 'import signal; print(sorted(signal.pthread_sigmask(0, [])))'"
    client = clients.start(before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]))
    hub.accept().finish(protocol.local_message(mask.encode(), null_stdin=False))
    assert output(client) == (0, b"[<Signals.SIGUSR1: 10>]\n")


def test_local_that_is_too_long_for_execve_fails_as_in_a_shell(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    hub.accept().finish(protocol.local_message(b"true " + b"x" * 4_000_000, null_stdin=False))
    assert ended(client) == (126, "rshagent: /bin/sh can't be run in this container: Argument list too long\n")


def test_a_client_that_was_told_to_end_runs_nothing_here(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    client.send_signal(signal.SIGTERM)
    assert connection.signal() == signal.SIGTERM
    connection.finish(protocol.local_message(b"echo ran", null_stdin=False))
    assert output(client) == (143, b"")


# ---- narrow places ----


def forbid(call: dict[str, int], error: int) -> Callable[[], None]:
    """A seccomp filter that lets one system call fail."""
    number = call[platform.machine()]

    class Instruction(ctypes.Structure):
        _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction)))

    load, jump_if, answer = 0x20, 0x15, 0x06
    allowed, failed = 0x7FFF0000, 0x00050000
    steps = (Instruction * 4)(
        Instruction(load, 0, 0, 0),
        Instruction(jump_if, 0, 1, number),
        Instruction(answer, 0, 0, failed | error),
        Instruction(answer, 0, 0, allowed),
    )
    program = Program(4, steps)
    libc = ctypes.CDLL(None, use_errno=True)

    def apply() -> None:
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

    return apply


SENDMSG = {"x86_64": 46, "aarch64": 211}
PIDFD_OPEN = {"x86_64": 434, "aarch64": 434}
SIGNALFD4 = {"x86_64": 289, "aarch64": 74}
known_machine = pytest.mark.skipif(platform.machine() not in SENDMSG, reason="system call numbers of this machine")


@known_machine
def test_where_files_cant_be_passed_it_says_so(clients: Clients, hub: ScriptedHub) -> None:
    code, told = ended(clients.start(before=forbid(SENDMSG, errno.EPERM)))
    assert code == 255
    expected = f"rshagent: stdin, stdout and stderr can't be passed to the hub at {hub.path}: Operation not permitted; "
    assert told.startswith(expected)
    assert told.count("\n") == 1


@known_machine
def test_a_passing_shortage_is_tried_again(clients: Clients, hub: ScriptedHub) -> None:
    """ETOOMANYREFS: more fds of this user are under way than it may have open."""
    client = clients.start(before=forbid(SENDMSG, errno.ETOOMANYREFS))
    for _ in range(3):
        connection = hub.accept()
        assert connection.read() is None
    client.send_signal(signal.SIGTERM)
    assert ended(client) == (143, "")


@known_machine
def test_without_pidfd_the_parent_is_not_watched(clients: Clients, hub: ScriptedHub, tmp_path: Path) -> None:
    parent = clients.start(
        command=[launcher(tmp_path, "mpirun"), clients.program], before=forbid(PIDFD_OPEN, errno.ENOSYS)
    )
    connection = hub.accept()
    connection.start()
    connection.exit(0)
    assert ended(parent) == (0, "")


@known_machine
def test_without_signalfd_it_says_so(clients: Clients) -> None:
    code, told = ended(clients.start(before=forbid(SIGNALFD4, errno.EPERM)))
    assert (code, told.startswith("rshagent: signalfd fails: Operation not permitted; ")) == (255, True)


@in_static_build
def test_a_root_that_holds_nothing_else(program: Path, hub: ScriptedHub, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-r", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    root = tmp_path / "root"
    root.mkdir()
    (root / "rshagent").write_bytes(program.read_bytes())
    (root / "rshagent").chmod(0o555)
    inside = ScriptedHub(root / "hub.sock")
    root.chmod(0o555)
    clients = Clients(program, inside)
    jail = ["unshare", "-r", "chroot", os.fspath(root), "/rshagent"]
    client = clients.start(
        command=jail, env={"MPI_AGENT_SOCKET": "/hub.sock", "PATH": os.environ["PATH"] + ":/usr/sbin"}
    )
    connection = inside.accept()
    start = connection.start()
    assert (start.argv[0], start.cwd, start.instance) == (b"/rshagent", b"/", b"0-0")
    connection.finish(protocol.local_message(b"true", null_stdin=False))
    assert ended(client) == (127, "rshagent: /bin/sh can't be run in this container: No such file or directory\n")
    inside.stop()
    root.chmod(0o755)
