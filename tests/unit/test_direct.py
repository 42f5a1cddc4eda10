"""Direct mode without a cluster: it starts on a bare interpreter, runs what is for the launcher, and says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MAIN = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "rshagent", "__main__.py"
)
DEADLINE_S = 30


def run(*words: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Call the agent in an environment that knows no cluster."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-E", MAIN, *words],
        input=stdin,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "MPI_AGENT_HOSTFILE": "/nowhere", "MPI_AGENT_HOSTS": "/nowhere", **environ},
        timeout=DEADLINE_S,
        check=False,
    )


def test_without_arguments_it_says_how_it_is_called() -> None:
    done = run()
    assert done.returncode == 255
    assert done.stdout == b""
    assert done.stderr.startswith(b"rshagent: no host given. Usage: AGENT")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(("text", "code"), [("exit 3", 3), ("echo out; echo err >&2", 0), ("kill -9 $$", -9)])
def test_a_command_for_the_launcher_runs_in_its_own_place(text: str, code: int) -> None:
    done = run("localhost", text)
    assert done.returncode == code
    assert (done.stdout, done.stderr) == ((b"out\n", b"err\n") if "echo" in text else (b"", b""))


def test_it_reads_stdin_unless_it_is_told_not_to() -> None:
    assert run("localhost", "cat", stdin=b"typed").stdout == b"typed"
    assert run("-n", "localhost", "cat", stdin=b"typed").stdout == b""


def test_it_ignores_no_signal_that_a_shell_would_not() -> None:
    done = run("localhost", "grep ^SigIgn: /proc/self/status; yes | head -n 1")
    name, ignored, output = done.stdout.split()
    assert (name, output) == (b"SigIgn:", b"y")
    assert not int(ignored, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    assert done.stderr == b""


def test_what_was_kept_from_its_own_loader_is_given_back() -> None:
    """By direct_start.c: the image's libraries are for the image's programs."""
    kept = "env | grep -E '^(LD|LC|MPI_AGENT_L)_'"
    done = run(
        "localhost",
        kept,
        MPI_AGENT_LD_PRELOAD="/nowhere/lib.so",
        MPI_AGENT_LD_AUDIT="",
        MPI_AGENT_LC_ALL="",
        LC_ALL="C",
    )
    assert done.stdout == b"LD_PRELOAD=/nowhere/lib.so\n"
    done = run("localhost", 'echo "$LC_ALL"', MPI_AGENT_LC_ALL="de_DE.UTF-8", LC_ALL="C")
    assert done.stdout == b"de_DE.UTF-8\n"


def test_a_worker_where_there_is_no_cluster(tmp_path: Path) -> None:
    done = run("worker-0", "true", MPI_AGENT_SERVICE_ACCOUNT=str(tmp_path))
    assert done.returncode == 255
    assert done.stderr == (
        b"rshagent: no API server is known: this is no pod (KUBERNETES_SERVICE_HOST is not set) "
        b"and KUBECONFIG is not set\n"
    )
