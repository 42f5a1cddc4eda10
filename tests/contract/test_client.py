"""The real client against a hub that is told what to do: what it hands over, and how it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import resource
import socket
from typing import TYPE_CHECKING

import pytest
from scripted_hub import FIXTURES, ended, in_both_builds, launcher

from rshagent.native import protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripted_hub import Clients, ScriptedHub

build, program, hub, clients = FIXTURES


# ---- what it hands over ----


@in_both_builds
def test_start_carries_argv_the_agents_variables_cwd_and_instance(
    clients: Clients, hub: ScriptedHub, tmp_path: Path
) -> None:
    words = [b"-x", b"worker-0", b"", b" orted", b'"\\"x\\""', b"$HOME;\n", b"\xff\xfe"]
    variables = {"MPI_AGENT_TRACE": "1", "MPI_AGENT_EMPTY": "", "MPI_AGENTX": "no", "SECRET": "no"}
    client = clients.start(*words, env=variables, cwd=tmp_path)
    connection = hub.accept()
    message = connection.expect(protocol.START)
    start = protocol.Start.unpack(message.payload)
    assert start.argv == [os.fsencode(clients.program), *words]
    assert start.env == {
        b"MPI_AGENT_SOCKET": os.fsencode(hub.path),
        b"MPI_AGENT_TRACE": b"1",
        b"MPI_AGENT_EMPTY": b"",
    }
    assert start.cwd == os.fsencode(tmp_path)
    with open("/proc/1/stat", encoding="utf-8", errors="replace") as stat:
        first = stat.read()
    assert start.instance.decode() == f"{first.rpartition(')')[2].split()[19]}-{os.stat('/proc/self/ns/mnt').st_ino}"
    assert len(message.fds) == 3
    connection.exit(0)
    assert ended(client) == (0, "")


@pytest.mark.parametrize(
    ("called_by", "caller"),
    [
        ("mpirun", "mpirun"),
        ("mpirun run.sh", "mpirun"),
        ("horovodrun python3 sh", "horovodrun"),
        ("mpirun.sh mpiexec.hydra hydra_bstrap_proxy", "hydra_bstrap_pr"),
        ("run.sh", ""),
        ("mpirun a b c d e f g", "mpirun"),
        ("mpirun a b c d e f g h", ""),
    ],
)
def test_start_names_the_launcher_that_called(
    clients: Clients, hub: ScriptedHub, tmp_path: Path, called_by: str, caller: str
) -> None:
    """Also where a shell or two are between; and nobody else names one."""
    chain = [launcher(tmp_path, name) for name in called_by.split()]
    client = clients.start(command=[*chain, clients.program], env={"MPI_AGENT_CALLER": "7-7"})
    connection = hub.accept()
    said = connection.start().env.get(b"MPI_AGENT_CALLER", b"").decode()
    assert bool(said) is bool(caller)
    if caller:
        pid, _, started = said.partition("-")
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read()
        assert fields.partition("(")[2].rpartition(")")[0] == caller
        assert fields.rpartition(")")[2].split()[19] == started
    connection.exit(0)
    assert ended(client) == (0, "")


def test_instance_can_be_given(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start(env={"MPI_AGENT_INSTANCE": "abc-1"})
    connection = hub.accept()
    assert connection.start().instance == b"abc-1"
    connection.exit(0)
    assert ended(client) == (0, "")


def test_a_removed_working_directory_is_sent_as_unknown(clients: Clients, hub: ScriptedHub, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    client = clients.start(cwd=here, before=here.rmdir)
    connection = hub.accept()
    assert connection.start().cwd == b""
    connection.exit(0)
    assert ended(client) == (0, "")


def a_pipe(_: Path) -> int:
    ours, theirs = os.pipe()
    os.close(ours)
    return theirs


def a_file(folder: Path) -> int:
    return os.open(folder / "file", os.O_RDWR | os.O_CREAT | os.O_APPEND)


def a_terminal(_: Path) -> int:
    ours, theirs = pty.openpty()
    os.close(ours)
    return theirs


def a_socket(_: Path) -> int:
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.setblocking(False)
    return theirs.detach()


def nothing(_: Path) -> int:
    return os.open(os.devnull, os.O_RDWR)


@pytest.mark.parametrize("kind", [a_pipe, a_file, a_terminal, a_socket, nothing])
def test_stdio_arrives_as_the_same_open_files_with_unchanged_flags(
    clients: Clients, hub: ScriptedHub, tmp_path: Path, kind: Callable[[Path], int]
) -> None:
    ours = [kind(tmp_path) for _ in range(3)]
    before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in ours]
    client = clients.start(stdin=ours[0], stdout=ours[1], stderr=ours[2])
    connection = hub.accept()
    theirs = connection.expect(protocol.START).fds
    assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in theirs] == before
    for mine, its in zip(ours, theirs, strict=True):
        assert os.fstat(its).st_ino == os.fstat(mine).st_ino
        flags = fcntl.fcntl(mine, fcntl.F_GETFL)
        fcntl.fcntl(its, fcntl.F_SETFL, flags ^ os.O_NONBLOCK)  # of the open file, not of the fd
        assert fcntl.fcntl(mine, fcntl.F_GETFL) == flags ^ os.O_NONBLOCK
        fcntl.fcntl(its, fcntl.F_SETFL, flags)
    connection.exit(0)
    assert client.wait() == 0
    assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in ours] == before
    for fd in ours:
        os.close(fd)


def close_all(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_closed_standard_files_become_dev_null(clients: Clients, hub: ScriptedHub, closed: tuple[int, ...]) -> None:
    client = clients.start(before=lambda: close_all(closed))
    connection = hub.accept()
    fds = connection.expect(protocol.START).fds
    null = os.stat(os.devnull).st_rdev
    assert {n for n, fd in enumerate(fds) if os.fstat(fd).st_rdev == null} == {0, *closed}  # stdin is /dev/null anyway
    connection.exit(4)
    assert client.wait() == 4


def test_as_interpreter_and_as_symlink_it_passes_argv_as_it_is(
    clients: Clients, hub: ScriptedHub, tmp_path: Path
) -> None:
    script, link = tmp_path / "kubexec.sh", tmp_path / "other-name"
    script.write_text(f"#!{clients.program} -x\n")
    script.chmod(0o755)
    link.symlink_to(clients.program)
    for path, argv in ((script, [clients.program, "-x", script]), (link, [link])):
        client = clients.start("w", "a b", command=[path])
        connection = hub.accept()
        assert connection.start().argv == [*(os.fsencode(str(word)) for word in argv), b"w", b"a b"]
        connection.exit(0)
        assert ended(client) == (0, "")


def room_for_arguments() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))


@pytest.mark.parametrize("size", [100_000, 3_900_000])
def test_a_long_command_arrives_whole(clients: Clients, hub: ScriptedHub, size: int) -> None:
    words = [b"%d" % n + b"x" * 99_990 for n in range(size // 100_000)]
    client = clients.start(*words, before=room_for_arguments)
    while (message := (connection := hub.accept()).read()) is None:
        pass  # a hub that does not read for 2 s is given up, and asked again
    assert protocol.Start.unpack(message.payload).argv[1:] == words
    connection.exit(0)
    assert ended(client) == (0, "")


def test_a_command_that_no_message_holds_is_refused_in_one_line(clients: Clients) -> None:
    client = clients.start(*[b"x" * 100_000] * 44, before=room_for_arguments)
    code, told = ended(client)
    assert code == 255
    assert told == "rshagent: the command line is longer than the 4 MiB of a message: put it into a file\n"


# ---- how it ends ----


@in_both_builds
def test_every_exit_code(clients: Clients, hub: ScriptedHub, build: str) -> None:
    for code in range(256) if build == "static" else (0, 1, 255):
        client = clients.start()
        connection = hub.accept()
        connection.expect(protocol.START)
        connection.exit(code)
        assert ended(client) == (code, "")
        connection.close()


def test_a_code_that_no_process_can_end_with_becomes_255(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    hub.accept().exit(256)
    assert ended(client) == (255, "")


@pytest.mark.parametrize(("code", "expected"), [(255, 255), (127, 127), (0, 255), (256, 255)])
def test_fail_is_one_line_and_a_code_that_is_never_0(
    clients: Clients, hub: ScriptedHub, code: int, expected: int
) -> None:
    client = clients.start()
    hub.accept().finish(protocol.fail_message(code, "no worker 'x';\nthe job has:  w-0 %s %n ✓"))
    assert ended(client) == (expected, "rshagent: no worker 'x'; the job has: w-0 %s %n ✓\n")


def test_a_long_failure_is_cut_to_one_line(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    hub.accept().finish(protocol.fail_message(9, "x" * 100_000))
    code, told = ended(client)
    assert code == 9
    assert told == "rshagent: " + "x" * (len(told) - 11) + "\n"
    assert 4000 < len(told) <= 4096


def test_a_stderr_that_nobody_reads_does_not_hold_it(clients: Clients, hub: ScriptedHub) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, bytes(fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ)))
    client = clients.start(stderr=theirs)
    hub.accept().finish(protocol.fail_message(7, "nobody reads this"))
    assert client.wait(timeout=90) == 7
    os.close(ours)
    os.close(theirs)


def test_messages_in_pieces_and_in_one(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.expect(protocol.START)
    for byte in protocol.encode(protocol.TICKET, b"first"):
        connection.send(bytes([byte]))
    connection.send(protocol.encode(protocol.TICKET, b"x" * 4096) + protocol.encode(protocol.TICKET, b""))
    connection.finish(protocol.encode(protocol.TICKET, b"last") + protocol.exit_message(5)[:13])
    connection.send(protocol.exit_message(5)[13:] + protocol.exit_message(6))
    assert ended(client) == (5, "")


NOT_OURS = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeros": bytes(100),
    "version": b"MPIA\x02" + protocol.exit_message(0)[5:],
    "reserved": protocol.exit_message(0)[:6] + b"\0\1" + protocol.exit_message(0)[8:],
    "unknown kind": b"MPIA\x01\x63\0\0\0\0\0\0",
    "our own kind": protocol.encode(protocol.START, b""),
    "too long": b"MPIA\x01\x11\0\0\xff\xff\xff\xff",
    "just too long": b"MPIA\x01\x10\0\0" + (protocol.PAYLOAD_MAX + 1).to_bytes(4, "big"),
    "exit without a code": protocol.encode(protocol.EXIT, b"\0\0\0"),
    "exit with more": protocol.encode(protocol.EXIT, b"\0\0\0\0\0"),
    "fail without a code": protocol.encode(protocol.FAIL, b""),
    "local without flags": protocol.encode(protocol.LOCAL, b"\0"),
    "local with a NUL": protocol.encode(protocol.LOCAL, b"\0\0\0\0true\0"),
    "long ticket": protocol.encode(protocol.TICKET, b"x" * 4097),
    "empty OK": protocol.encode(protocol.OK, b""),
}


@pytest.mark.parametrize("data", NOT_OURS.values(), ids=NOT_OURS)
def test_a_hub_that_speaks_something_else(clients: Clients, hub: ScriptedHub, data: bytes) -> None:
    client = clients.start()
    hub.accept().finish(data)
    code, told = ended(client)
    assert code == 255
    assert told.startswith(f"rshagent: what listens at {hub.path} does not speak version 1 of the hub's protocol; ")
    assert told.count("\n") == 1


def test_a_hub_that_refuses_before_it_read_all_is_heard(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start(*[b"x" * 100_000] * 38, before=room_for_arguments)
    while client.poll() is None:
        connection = hub.accept()
        with contextlib.suppress(BrokenPipeError):  # else it has given this one up, and asks again
            connection.send(protocol.fail_message(12, "too much"))
            connection.close()
            break
    assert ended(client) == (12, "rshagent: too much\n")
