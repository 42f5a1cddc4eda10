"""A program that mpi-wrap runs in an application container: what it gets, and how its end is reported."""

from __future__ import annotations

import os
import platform
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from app_container import CONTAINER, CONTAINER_PATH, FIXTURES, Container, Peer, Programs, in_both_builds
from scripted_hub import SANITIZERS

programs, sockets, app = FIXTURES

SHOW = "import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
# The variables that are true of one container only.
OWN = (
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TMPDIR"),
    *("OPAL_PREFIX", "PMIX_PREFIX", "PMIX_INSTALL_PREFIX", "PRTE_PREFIX", "OMPI_MCA_mca_base_component_path"),
)
# An empty LD_PRELOAD, as mpi-wrap is dynamic in one of its builds.
RUNTIME = {**dict.fromkeys(OWN, "/of/the/runtime"), "LD_PRELOAD": ""}


def environment_of(app: Container, env: dict[str, str] | None = None) -> dict[str, str]:
    code, out, err = app.run("env", "-0", env=env)
    assert (code, err) == (0, "")
    pairs = [line.split("=", 1) for line in out.decode().split("\0") if line]
    assert len({name for name, _ in pairs}) == len(pairs), "no variable is there twice"
    return dict(pairs)


def test_arguments_are_byte_exact(app: Container) -> None:
    words = [b"", b" a  b ", b"$HOME;\n", b'"\\"', b"\xff\xfe", b"--container", b"-x", b"*"]
    assert app.run(sys.executable, "-c", SHOW, *words) == (0, b"\0".join(words), "")


@in_both_builds
def test_all_variables_go_along_except_what_is_true_of_one_container_only(app: Container) -> None:
    sent = {"OMPI_MCA_x": "1=2 ", "PMIX_RANK": "3", "PRTE_MCA_y": "", "ODD": "a\nb", "HOMES": "x", "APP": "of the rank"}
    found = environment_of(app, {**sent, **RUNTIME})
    assert found == {**SANITIZERS, **CONTAINER, **sent, "MPI_WRAP_FOLDER": os.fspath(app.folder)}


def test_the_containers_own_variables_count(programs: Programs, sockets: Path) -> None:
    own = {**dict.fromkeys(OWN, "/of/the/app"), "PATH": CONTAINER_PATH, "LD_PRELOAD": "", "KEPT": "image"}
    container = Container(programs, sockets, env=own)
    try:
        found = environment_of(container, {**RUNTIME, "PWD": "/there"})
    finally:
        container.end()
    assert found.items() >= own.items()
    assert found["PWD"] == "/there"


@pytest.mark.parametrize("size", [100, 120_000])
def test_large_environments(app: Container, size: int) -> None:
    """1.9 MB in total: the kernel takes a quarter of the stack's limit, 2 MiB by default."""
    count = 1_900_000 // size if size > 1000 else 8_000
    found = environment_of(app, {f"VARIABLE_{n}": "v" * size for n in range(count)})
    assert sum(name.startswith("VARIABLE_") for name in found) == count
    assert {len(value) for name, value in found.items() if name.startswith("VARIABLE_")} == {size}


def test_more_than_the_container_can_take_is_one_line(app: Container) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"true", *[b"x" * 100_000] * 30)
        code, text = peer.answer()
    assert code == 126
    assert "longer than this container allows" in text


def test_the_working_directory_goes_along(app: Container, tmp_path: Path) -> None:
    folder = tmp_path / "a b\n"
    folder.mkdir()
    assert app.run("pwd", cwd=folder) == (0, os.fsencode(folder) + b"\n", "")


def test_an_unknown_working_directory_is_the_containers(app: Container) -> None:
    with Peer(app.socket) as peer:
        reader, writer = os.pipe()
        peer.start(b"pwd", cwd=b"", fds=(writer,) * 3)
        os.close(writer)
        assert peer.answer() == (0, "")
        with os.fdopen(reader, "rb") as out:
            assert out.read() == os.fsencode(os.getcwd()) + b"\n"


def test_a_missing_working_directory_is_named(app: Container) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"true", cwd=b"/no/such\nfolder")
        code, text = peer.answer()
    assert code == 126
    assert text.startswith("working directory /no/such?folder: No such file or directory; mount it")


@in_both_builds
def test_stdin_stdout_and_stderr_are_the_clients(app: Container) -> None:
    data = os.urandom(1 << 20)
    code, out, err = app.run("sh", "-c", "cat; echo done >&2", input=data)
    assert (code, out, err) == (0, data, "done\n")


def test_they_are_the_same_open_files(app: Container, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with open(path, "w+b", buffering=0) as file:
        file.write(b"before ")
        assert app.run("sh", "-c", "echo more; echo err >&2", stdout=file, stderr=file)[0] == 0
        file.write(b"after")
    assert path.read_bytes() == b"before more\nerr\nafter"


def test_nothing_else_is_open_and_no_signal_is_blocked_or_ignored(app: Container) -> None:
    code, out, _ = app.run(sys.executable, "-S", "-c", "print(open('/proc/self/status').read())", input=b"")
    own, fields = (
        dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
        for text in (Path("/proc/self/status").read_text(), out.decode())
    )
    assert code == 0
    assert int(fields["SigBlk"], 16) == 0
    assert int(fields["SigIgn"], 16) & ~int(own["SigIgn"], 16) == 0  # as here: Python itself ignores PIPE and XFSZ
    code, out, _ = app.run("ls", "/proc/self/fd", input=b"")
    assert out.split() == [b"0", b"1", b"2", b"3"]  # 3: the folder that ls reads


def test_a_closed_stdin_is_dev_null(app: Container) -> None:
    done = app.run("readlink", "/proc/self/fd/0", stdin=None, preexec_fn=lambda: os.close(0))
    assert done == (0, b"/dev/null\n", "")


def test_a_terminal_can_be_used_without_being_its_controlling_one(app: Container) -> None:
    main, side = os.openpty()
    process = app.spawn("sh", "-c", "test -t 0 && test -t 1 && read line && echo got $line", stdin=side, stdout=side)
    os.close(side)
    os.write(main, b"this\n")
    assert process.wait(60) == 0
    out = b""
    while b"got this" not in out:
        out += os.read(main, 4096)
    os.close(main)


@in_both_builds
@pytest.mark.parametrize("code", [0, 1, 255])
def test_its_exit_code(app: Container, code: int) -> None:
    assert app.run("sh", "-c", f"exit {code}") == (code, b"", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMIN])
def test_a_signal_that_ended_it_is_128_and_its_number(app: Container, number: int) -> None:
    assert app.run("sh", "-c", f"ulimit -c 0; kill -{int(number)} $$") == (128 + number, b"", "")


def script(folder: Path, name: str, content: bytes, mode: int = 0o755) -> Path:
    path = folder / name
    path.write_bytes(content)
    path.chmod(mode)
    return path


FOREIGN = {"x86_64": (183, "arm64", "amd64"), "aarch64": (62, "amd64", "arm64")}


@pytest.mark.skipif(platform.machine() not in FOREIGN, reason="the test knows no foreign architecture for this one")
def test_a_program_for_another_architecture(app: Container, tmp_path: Path) -> None:
    machine, foreign, here = FOREIGN[platform.machine()]
    content = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0" + machine.to_bytes(2, "little") + b"\x01\0\0\0" + bytes(100)
    path = script(tmp_path, "foreign", content)
    told = f"mpi-wrap: container app: {path} is built for {foreign}, and this node is {here}\n"
    assert app.run(path) == (126, b"", told)


def test_programs_that_can_t_be_run(app: Container, tmp_path: Path) -> None:
    plain = script(tmp_path, "plain", b"no program", 0o644)
    text = script(tmp_path, "text", b"echo no first line\n")
    lost = script(tmp_path, "lost", b"#!/no/such/interpreter\n")
    for command, expected, told in (
        (tmp_path / "none", 127, f"there is no program {tmp_path / 'none'}"),
        (tmp_path / "plain" / "below", 127, f"there is no program {tmp_path / 'plain' / 'below'}"),
        ("no-such-program", 127, f'there is no program "no-such-program" in PATH ({CONTAINER_PATH})'),
        ("", 127, f'there is no program "" in PATH ({CONTAINER_PATH})'),
        (tmp_path, 126, f"{tmp_path} can't be run: it is a directory"),
        ("/dev/null", 126, "/dev/null can't be run: it is no regular file"),
        (plain, 126, f"{plain} can't be run: it is not executable"),
        (text, 126, f"{text} is neither an executable for"),
        (lost, 126, f"{lost} needs the interpreter of its first line, that this image does not have"),
    ):
        code, out, err = app.run(command)
        assert (code, out) == (expected, b"")
        assert err.startswith(f"mpi-wrap: container app: {told}")
        assert err.count("\n") == 1


def test_it_is_found_by_the_containers_path(programs: Programs, sockets: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    script(first, "tool", b"#!/bin/sh\necho first\n", 0o644)
    script(second, "tool", b"#!/bin/sh\necho second $0\n")
    (tmp_path / "here").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "here").chmod(0o755)
    container = Container(programs, sockets, env={"PATH": f"/none:{first}:{second}::/bin:/usr/bin"})
    try:
        assert container.run("tool", env={"PATH": "/of/the/runtime"}) == (0, f"second {second}/tool\n".encode(), "")
        assert container.run("here", cwd=tmp_path) == (0, b"here\n", "")
        (second / "tool").unlink()
        code, _, err = container.run("tool")
        assert (code, err) == (126, f"mpi-wrap: container app: {first}/tool can't be run: it is not executable\n")
    finally:
        container.end()


def test_a_hundred_at_once(app: Container) -> None:
    before = app.open_files()
    clients = [app.spawn("sh", "-c", f"read line; echo $line; exit {n}", stdin=subprocess.PIPE) for n in range(100)]
    for number, client in enumerate(clients):
        out, err = client.communicate(b"%d\n" % number, 60)
        assert (client.returncode, out, err) == (number, b"%d\n" % number, b"")
    app.until_idle()
    assert app.open_files() == before


def test_a_runner_whose_parent_ignored_sigchld(programs: Programs, sockets: Path) -> None:
    """Ignored SIGCHLD is inherited, and the kernel would drop the exit status of each program."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        container = Container(programs, sockets)
    finally:
        signal.signal(signal.SIGCHLD, before)
    try:
        assert container.run("sh", "-c", "exit 3")[0] == 3
    finally:
        container.end()


def test_only_its_own_user_can_use_it(app: Container) -> None:
    assert stat.S_IMODE(app.socket.stat().st_mode) == 0o600


def test_a_socket_of_a_former_life_is_replaced(programs: Programs, sockets: Path) -> None:
    first = Container(programs, sockets)
    first.end()
    assert first.socket.exists()
    second = Container(programs, sockets)
    try:
        assert second.run("sh", "-c", "exit 3")[0] == 3
    finally:
        second.end()


@pytest.mark.parametrize("arguments", [[], ["--socket"], ["--other", "x"], ["--socket", "a", "b"]])
def test_wrong_usage_of_the_runner(programs: Programs, arguments: list[str]) -> None:
    done = subprocess.run([programs.runner, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (255, "mpi-runner: usage: mpi-runner --socket PATH | --connection FD\n")


def test_a_connection_that_is_none(programs: Programs) -> None:
    done = subprocess.run([programs.runner, "--connection", "9"], capture_output=True, text=True, check=False)
    message = 'mpi-runner: "9" is no connection that mpi-runner was started with\n'
    assert (done.returncode, done.stderr) == (255, message)


@pytest.mark.parametrize(("path", "told"), [("/no/such/folder/app.sock", "can't listen"), ("x" * 108, "107 bytes")])
def test_a_socket_that_can_t_be(programs: Programs, path: str, told: str) -> None:
    done = subprocess.run([programs.runner, "--socket", path], capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
