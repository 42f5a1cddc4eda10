"""mpi-wrap: which container it takes, and what it says where it can't run a program."""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from app_container import FIXTURES, PATIENCE_S, Container, Programs, in_hasty_build
from scripted_hub import SANITIZERS, ScriptedHub

from rshagent.native import protocol
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

programs, sockets, app = FIXTURES


def wrap(programs: Programs, folder: Path, *arguments: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [programs.wrap, *arguments],
        env={"MPI_WRAP_FOLDER": os.fspath(folder), **SANITIZERS, **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def two(programs: Programs, sockets: Path) -> Iterator[Path]:
    both = [Container(programs, sockets, name, env={"PATH": "/bin:/usr/bin", "NAME": name}) for name in ("one", "two")]
    yield sockets
    for container in both:
        container.end()


def test_several_containers(two: Path, programs: Programs) -> None:
    show = ("sh", "-c", "echo $NAME")
    assert wrap(programs, two, "--container", "one", *show) == (0, "one\n", "")
    assert wrap(programs, two, "--container=two", *show) == (0, "two\n", "")
    assert wrap(programs, two, *show, MPI_WRAP_CONTAINER="two") == (0, "two\n", "")
    assert wrap(programs, two, "--container", "one", "--", *show, MPI_WRAP_CONTAINER="two") == (0, "one\n", "")
    code, _, err = wrap(programs, two, *show)
    assert code == 255
    assert err.startswith("mpi-wrap: this pod has several application containers: ")
    assert err.endswith("; choose one by --container or MPI_WRAP_CONTAINER\n")
    for name in ("", "../one", "one.sock", "One", "-one", "one-", "x" * 64, "x" * 5000):
        code, _, err = wrap(programs, two, "--container", name, *show)
        assert code == 255
        told = f'there is no application container "{name[:64]}": a name has 1 to 63 of a-z, 0-9 and -'
        assert err == f"mpi-wrap: {told}\n"


@in_hasty_build
def test_a_chosen_container_that_never_starts_is_one_line(programs: Programs, sockets: Path, app: Container) -> None:
    """Also where other containers run, and other files have names that end in .sock."""
    for name in ("x" * 64, "App", "a.b", ""):
        (sockets / f"{name}.sock").touch()
    assert app.run("sh", "-c", "exit 3")[0] == 3
    code, _, err = wrap(programs, sockets, "--container", "other", "true")
    assert (code, err) == (
        255,
        f"mpi-wrap: container other: it has no socket in {sockets} for 1 s, only: app; nothing was started\n",
    )


def test_outside_a_virtual_cluster(programs: Programs, tmp_path: Path) -> None:
    code, _, err = wrap(programs, tmp_path / "none", "true")
    assert code == 255
    assert err == (
        f"mpi-wrap: there is no application container here: {tmp_path}/none: No such file or directory; run this in a "
        "node of a VirtualCluster with application containers\n"
    )


def test_too_many_strings_are_one_line(programs: Programs, sockets: Path) -> None:
    code, _, err = wrap(programs, sockets, *["x"] * 65_536)
    assert (code, err) == (
        255,
        "mpi-wrap: the command has more than 65536 arguments and variables: put them into a file\n",
    )


def test_help_and_usage(programs: Programs, sockets: Path) -> None:
    code, out, err = wrap(programs, sockets, "--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: mpi-wrap [--container NAME | --podman IMAGE] [--] PROGRAM [ARGUMENT...]\n")
    for arguments, told in (
        ((), "no program"), (("--",), "no program"), (("--other", "x"), "--other is no option"),
        (("--container",), "--container is no option, or lacks its value"),
        (("--podman",), "--podman is no option, or lacks its value"), (("--podman=", "x"), '"" is no name of an image'),
    ):  # fmt: skip
        code, _, err = wrap(programs, sockets, *arguments)
        assert code == 255
        assert err.startswith(f"mpi-wrap: {told}")
        assert err.endswith("; see mpi-wrap --help\n")


def test_it_waits_for_a_container_that_starts(programs: Programs, sockets: Path) -> None:
    process = subprocess.Popen(
        [programs.wrap, "sh", "-c", "exit 3"], env={"MPI_WRAP_FOLDER": os.fspath(sockets), **SANITIZERS}
    )
    container = Container(programs, sockets)
    try:
        assert process.wait(PATIENCE_S) == 3
    finally:
        container.end()


def test_it_waits_for_the_chosen_container_beside_others(programs: Programs, sockets: Path, app: Container) -> None:
    process = app.spawn("--container", "late", "sh", "-c", "exit 3")
    until(lambda: _blocks(process.pid, signal.SIGTERM), "it has begun")
    late = Container(programs, sockets, "late")
    try:
        assert process.wait(PATIENCE_S) == 3
    finally:
        late.end()


@in_hasty_build
def test_no_container_and_no_runner_are_one_line(programs: Programs, sockets: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    Container(programs, sockets).end()  # its socket stays
    waiting = [
        subprocess.Popen(
            [programs.wrap, "true"],
            env={"MPI_WRAP_FOLDER": os.fspath(folder), **SANITIZERS},
            stderr=subprocess.PIPE,
            text=True,
        )
        for folder in (empty, sockets)
    ]
    said = [process.communicate(timeout=PATIENCE_S)[1] for process in waiting]
    assert [process.returncode for process in waiting] == [255, 255]
    assert said == [
        f"mpi-wrap: no application container has a socket in {empty} for 1 s; nothing was started; are the pod's "
        "containers running?\n",
        "mpi-wrap: container app: no mpi-runner answers for 1 s (Connection refused); nothing was started; "
        "is the container at its limit of processes, or restarting?\n",
    ]


def test_the_dvm_of_a_login_pod_is_named_unless_the_program_has_one(app: Container, tmp_path: Path) -> None:
    uri = tmp_path / "uri"
    uri.write_text("prte-login-8@0.0;tcp4://10.1.2.3:4567\n")
    show = ["sh", "-c", 'echo "$PMIX_SERVER_URI $PMIX_SERVER_URI41"']
    env = {"MPI_WRAP_DVM": os.fspath(uri)}
    named = uri.read_text().strip()
    assert app.run(*show, env=env)[1].decode() == f"{named} {named}\n"
    assert app.run(*show, env={**env, "PMIX_SERVER_URI41": "other"})[1].decode() == f"{named} other\n"
    assert app.run(*show, env={"MPI_WRAP_DVM": "/no/such/file"})[1] == b" \n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_before_anything_was_started(programs: Programs, sockets: Path, number: int) -> None:
    process = subprocess.Popen([programs.wrap, "true"], env={"MPI_WRAP_FOLDER": os.fspath(sockets), **SANITIZERS})
    until(lambda: _blocks(process.pid, number), "it has begun")
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 128 + number


def _blocks(pid: int, number: int) -> bool:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        blocked = next(line for line in file if line.startswith("SigBlk"))
    return bool(int(blocked.split()[1], 16) >> (number - 1) & 1)


@pytest.fixture
def runner(sockets: Path) -> Iterator[ScriptedHub]:
    hub = ScriptedHub(sockets / "app.sock")
    yield hub
    hub.stop()


def asked(programs: Programs, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [programs.wrap, "program"],
        env={"MPI_WRAP_FOLDER": os.fspath(folder), **SANITIZERS},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_without_a_ticket_start_is_sent_again_and_with_one_never(
    programs: Programs, sockets: Path, runner: ScriptedHub
) -> None:
    process = asked(programs, sockets)
    first = runner.accept()
    assert first.start().argv == [b"program"]
    first.close()
    second = runner.accept()
    assert second.start().argv == [b"program"]
    second.ticket()
    second.close()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 255
    assert "mpi-runner is gone" in err
    assert "how the program ended is not known" in err


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (protocol.exit_message(0), 0, ""),
        (protocol.exit_message(255), 255, ""),
        (protocol.encode(protocol.EXIT, b"\0\0\1\0"), 255, ""),
        (protocol.fail_message(126, "why"), 126, "mpi-wrap: container app: why\n"),
        (protocol.encode(protocol.FAIL, b"\0\0\0\0"), 255, "mpi-wrap: container app: \n"),
        (protocol.local_message(b"exit 3", null_stdin=False), 255, None),
        (protocol.encode(protocol.OK), 255, None),
        (b"HTTP/1.1 400 Bad Request", 255, None),
    ],
)
def test_answers(
    programs: Programs, sockets: Path, runner: ScriptedHub, answer: bytes, code: int, told: str | None
) -> None:
    process = asked(programs, sockets)
    connection = runner.accept()
    connection.start()
    connection.ticket()
    connection.finish(answer)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    other = "its mpi-runner does not speak version 1 of the protocol; both must be of one release"
    assert err == (f"mpi-wrap: container app: {other}\n" if told is None else told)


def test_it_waits_without_a_limit_after_a_signal(programs: Programs, sockets: Path, runner: ScriptedHub) -> None:
    """A program may save its state for long; each signal is passed on."""
    process = asked(programs, sockets)
    connection = runner.accept()
    connection.start()
    connection.ticket(b"")

    def is_passed_on() -> bool:
        process.send_signal(signal.SIGWINCH)  # before the ticket it means nothing
        return bool(select.select([connection.socket], [], [], 0.05)[0])

    until(is_passed_on, "it has read the ticket")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        while (came := connection.signal()) == signal.SIGWINCH:
            pass
        assert came == number
    connection.exit(9)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9


@pytest.mark.skipif(os.geteuid() == 0, reason="root may connect to any socket")
def test_a_runner_of_another_user_is_one_line(programs: Programs, app: Container) -> None:
    app.socket.chmod(0)
    code, _, err = app.run("true")
    app.socket.chmod(0o600)
    assert code == 255
    assert "run both containers as one user (runAsUser)" in err
    assert stat.S_ISSOCK(app.socket.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a socket of another user")
def test_a_socket_that_another_user_made_gets_nothing(programs: Programs) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        hub = ScriptedHub(folder / "app.sock")
        (folder / "app.sock").chmod(0o666)
        shutil.copy(programs.wrap, folder / "mpi-wrap")
        try:
            done = subprocess.run(
                [folder / "mpi-wrap", "program"],
                cwd="/",
                env={"MPI_WRAP_FOLDER": name, **SANITIZERS},
                capture_output=True,
                text=True,
                user=65534,
                timeout=PATIENCE_S,
                check=False,
            )
            connection = hub.accept()
            assert connection.socket.recv(1) == b""
        finally:
            hub.stop()
    assert done.returncode == 255
    assert done.stderr == (
        "mpi-wrap: container app: its mpi-runner is of another user or group than this one "
        f"(uid 65534, gid {os.getegid()}); run both containers as one user and group (runAsUser, runAsGroup)\n"
    )
