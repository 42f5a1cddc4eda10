"""`kubectl mpi exec` and `cp`, by the real kubectl, in pods of a job that runs."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from typing import TYPE_CHECKING

import pytest
import yaml
from user_shell import Shell, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agents.playground.operated import Operated


@pytest.fixture(scope="module")
def running(operated: Operated) -> Iterator[Shell]:
    """A shell on a cluster where the job `works` runs."""
    shell = Shell(operated.cluster.kubeconfig())
    shell.run("submit", "-f", "-", stdin=manifest("works", "sleep", "600"))
    shell.run("wait", "works", "--for", "running")
    yield shell
    shell.run("delete", "works")


def test_a_command_has_the_jobs_mpi(running: Shell) -> None:
    found = running.run("exec", "works", "mpirun", "--allow-run-as-root", "-n", "2", "hostname")
    assert {"works-worker-0", "works-worker-1"} <= {*found.split()}
    assert "/etc/mpi/hostfile" in running.run("exec", "works", "--", "env")
    assert "No such option '--wroker'" in running.run("exec", "works", "--wroker", "1", code=2)
    assert "works has no worker 7" in running.run("exec", "works", "--worker", "7", code=4)


def test_a_terminal_resizes(running: Shell) -> None:
    pid, terminal = pty.fork()
    if not pid:
        script = "trap 'stty size' WINCH; stty size; until read _; do :; done"  # a signal ends a read
        os.execve(*running.command("exec", "works", "--", "sh", "-c", script))
    for rows in (11, 22):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 77, 0, 0))
        seen = b""
        while f"{rows} 77\r\n".encode() not in seen:
            seen += os.read(terminal, 4096)
    os.write(terminal, b"\n")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


def test_files_are_copied_to_a_job_and_back(running: Shell, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "local").write_text("data")
    there, back = f"works:{tmp_path}/there", tmp_path / "back"
    running.run("cp", str(tmp_path / "local"), f"{there}/file")
    running.run("cp", f"{there}/file", str(back))
    assert back.read_text() == "data"
    back.unlink()
    back.mkdir()
    running.run("cp", there, str(back), "--worker", "1")
    assert (back / "there" / "file").read_text() == "data"
    assert f"works-launcher has no {tmp_path}/none" in running.run("cp", f"works:{tmp_path}/none", str(back), code=1)
    assert "exactly one of the two paths" in running.run("cp", "works:/a", "works:/b", code=2)
    assert "exactly one of the two paths" in running.run("cp", "works:", ".", code=2)


def test_pods_that_lack_tar_or_do_not_run(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    job = yaml.safe_load(manifest("bare", "/bin/sleep", "600"))
    [container] = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "PATH", "value": str(tmp_path)}]
    shell.run("submit", "-f", "-", stdin=yaml.safe_dump(job))
    shell.run("wait", "bare", "--for", "running")
    assert "the image of bare-launcher has no tar, which cp needs" in shell.run("cp", "bare:/etc/hosts", ".", code=1)
    shell.run("delete", "bare")
    shell.run("submit", "-f", "-", stdin=manifest("over", "true"))
    shell.run("wait", "over")
    for words in (["exec", "over"], ["cp", "over:/etc/hosts", "."]):
        assert "container mpi of over-launcher is not running: it has ended" in shell.run(*words, code=4)
    shell.run("delete", "over")
