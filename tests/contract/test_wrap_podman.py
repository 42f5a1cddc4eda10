"""mpi-wrap --podman: the command, and the end of what it starts.

Podman is a script here that starts the runner itself, with the file that podman passes on. The real one is in
tests/cluster/virtual/test_canopie_podman.py.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from app_container import FIXTURES, Programs
from scripted_hub import SANITIZERS

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

programs = FIXTURES[0]

IMAGE = "registry.example.org/mpi:1"
SHARED = [
    *("run", "--rm", "--detach", "--network=host", "--pid=host", "--ipc=host", "--uts=host", "--cgroups=no-conmon"),
    *("--cap-add=sys_ptrace", "--log-driver=none", "--preserve-fds=1", "--ulimit=host", "--volume=/dev/shm:/dev/shm"),
]


class Podman:
    """A folder with a program of that name. It starts the runner once the file `go` is there."""

    def __init__(self, programs: Programs, folder: Path, script: str = "") -> None:
        self.folder, self.command = folder, folder / "command"
        self.wrap, self.runner = folder / "mpi-wrap", folder / "mpi-runner"  # it mounts the runner that is beside it
        shutil.copy(programs.wrap, self.wrap)
        shutil.copy(programs.runner, self.runner)
        self.go, self.ended = folder / "go", folder / "ended"
        self.go.touch()
        command, go, ended, runner = (
            shlex.quote(os.fspath(path)) for path in (self.command, self.go, self.ended, self.runner)
        )
        lines = [
            "#!/bin/sh", f"printf '%s\\n' \"$@\" >{command}", script,
            f"while [ \"$1\" != {IMAGE} ]; do shift; done; shift",
            f"exec >/dev/null 2>&1; (until [ -e {go} ]; do sleep 0.01; done; {runner} \"$@\"",
            f"echo $? >{ended}) &",
        ]  # fmt: skip
        (folder / "podman").write_text("\n".join(lines) + "\n")
        (folder / "podman").chmod(0o755)

    def spawn(self, *program: str, **env: str) -> subprocess.Popen[bytes]:
        path = f"{self.folder}:{os.environ['PATH']}"
        pipe = subprocess.PIPE
        arguments = [os.fspath(self.wrap), "--podman", IMAGE, *program]
        return subprocess.Popen(
            arguments, env={"PATH": path, **SANITIZERS, **env}, stdin=pipe, stdout=pipe, stderr=pipe
        )

    def run(self, *program: str, stdin: bytes = b"", **env: str) -> tuple[int, str, str]:
        with self.spawn(*program, **env) as process:
            out, err = process.communicate(stdin, timeout=60)
        return process.returncode, out.decode(), err.decode()

    def until_ended(self) -> None:
        until(lambda: self.ended.exists() and self.ended.read_text() == "0\n", "the runner has ended")


@pytest.fixture
def podman(programs: Programs, tmp_path: Path) -> Podman:
    return Podman(programs, tmp_path)


def test_a_program_has_our_files_and_environment_and_its_exit_code_is_ours(podman: Podman) -> None:
    script = 'cat; echo "$PMIX_RANK $FOO" >&2; exit 7'
    done = podman.run("sh", "-c", script, stdin=b"in", PMIX_RANK="3", FOO="a b")
    assert done == (7, "in", "3 a b\n")
    podman.until_ended()


def test_a_large_environment_arrives(podman: Podman) -> None:
    environment = {f"V{index}": "x" * 100_000 for index in range(10)}
    with podman.spawn("sh", "-c", "echo ${#V0} ${#V9}", **environment) as process:
        assert process.communicate(timeout=60) == (b"100000 100000\n", b"")


def test_podmans_command(podman: Podman, tmp_path: Path) -> None:
    more = " --volume=/data:/data\t--workdir=/data "
    assert podman.run("true", CONTAINER_ARGS=more, PMIX_SERVER_TMPDIR=os.fspath(tmp_path)) == (0, "", "")
    runner = podman.runner
    of_runner = [f"--volume={runner}:/run/mpi-runner:ro", "--entrypoint=/run/mpi-runner"]
    said = ["--log-level=error", *SHARED, f"--volume={tmp_path}:{tmp_path}", *of_runner]
    said += ["--volume=/data:/data", "--workdir=/data", IMAGE, "--connection", "3"]
    assert podman.command.read_text().splitlines() == said
    code, _, err = podman.run("true", WRAP_DEBUG="1")
    assert (code, err.splitlines()) == (0, [f"mpi-wrap: podman {' '.join([*SHARED, *of_runner, *said[-3:]])}"])


def test_a_signal_is_the_programs(podman: Podman) -> None:
    with podman.spawn("sh", "-c", "trap 'echo saved; exit 5' TERM; echo up; while :; do sleep 0.1; done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.terminate()
        assert (process.wait(60), process.stdout.read()) == (5, b"saved\n")
        podman.until_ended()


@pytest.mark.parametrize("size", [1, 1_000_000], ids=["short", "longer than a socket takes"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_started_for_one_that_ended_while_podman_starts(
    podman: Podman, tmp_path: Path, number: signal.Signals, size: int
) -> None:
    podman.go.unlink()
    environment = {f"V{index}": "x" * min(size, 100_000) for index in range(max(1, size // 100_000))}
    with podman.spawn("touch", os.fspath(tmp_path / "started"), **environment) as process:
        until(podman.command.exists, "podman was called")
        process.send_signal(number)
        assert process.wait(60) == (-9 if number == signal.SIGKILL else 143)
        podman.go.touch()
        podman.until_ended()
        assert not (tmp_path / "started").exists()


def test_a_killed_one_ends_its_program_and_what_that_started(podman: Podman) -> None:
    with podman.spawn("sh", "-c", "sleep 1000 & echo up; sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
        podman.until_ended()
        assert process.stdout.read() == b"", "nobody has it open"


def test_what_a_program_leaves_is_ended(podman: Podman) -> None:
    """Unlike in a sibling container: this one's is over."""
    assert podman.run("sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 3") == (3, "", "")
    podman.until_ended()


def test_errors(programs: Programs, podman: Podman, tmp_path: Path) -> None:
    code, _, err = podman.run("no-such-program")
    assert (code, err.count("\n")) == (127, 1)
    assert err.startswith(f'mpi-wrap: container {IMAGE}: there is no program "no-such-program"')
    (tmp_path / "failing").mkdir()
    failing = Podman(programs, tmp_path / "failing", "echo 'Error: no such image' >&2; exit 125")
    assert failing.run("true") == (
        255, "", "Error: no such image\n"
        f"mpi-wrap: podman started no container from {IMAGE} (its exit code is 125, the reason is above); "
        "nothing was started\n",
    )  # fmt: skip
    (podman.folder / "podman").unlink()
    code, _, err = podman.run("true", PATH="/no/such/folder")
    assert (code, err.count("\n")) == (255, 1)
    assert err.startswith("mpi-wrap: podman can't be started: No such file or directory")


def test_the_name_of_canopies_script(podman: Podman) -> None:
    script = podman.folder / "wrap-container.sh"
    script.symlink_to(podman.wrap)
    env = {"PATH": f"{podman.folder}:{os.environ['PATH']}", **SANITIZERS}
    done = subprocess.run([script, "sh", "-c", "exit 4"], env={**env, "MPI_IMAGE": IMAGE}, check=False)
    assert done.returncode == 4
    done = subprocess.run([script, "true"], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (255, b"mpi-wrap: no image: set MPI_IMAGE\n")
