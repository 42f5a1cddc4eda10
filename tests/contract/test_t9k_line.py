"""Real mpiruns take the line that is made of a T9k job, and hand each word of the program on as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from agents.job.t9k_launcher import HOSTFILE, launch_command
from agents.playground import wheels
from agents.playground.launchers import LAUNCHERS
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["a b", "$HOME", "it's", "*", 'say "x"', "", "-N", "\\"]
# A line of each rank by one write(2): mpirun mixes the pieces that come one by one.
# Neither ends before both have begun: Open MPI 5 may wait for ever when one does.
TELL = 'end=$1; shift; line=$(printf "%s|" "$@"); printf "%s\\n" "$line"; until [ -e "$end" ]; do sleep 0.1; done'
RECOVERY = ["--enable-recovery", "--max-restarts", "100", "--allow-run-as-root"]  # as in T9k's examples


@pytest.mark.parametrize("by_shell", [False, True])  # as the launcher runs it, and as its user types it
@pytest.mark.parametrize("name", ["openmpi4", "openmpi5"])
def test_ranks_get_the_words(tmp_path: Path, name: str, by_shell: bool) -> None:
    launcher = LAUNCHERS[name]
    home = wheels.installed(launcher, print)
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("localhost slots=2\n")
    end, out, err = (tmp_path / name for name in ("end", "out", "err"))
    program = ["/bin/sh", "-c", TELL, "tell", str(end), *WORDS]
    line = launch_command(home, {"btl": "^openib", "pml": "ob1"}, ["-N", "2", *RECOVERY], program)
    words = [str(hostfile) if word == HOSTFILE else word for word in line]
    argv = ["/bin/sh", "-c", shlex.join(words)] if by_shell else words
    environ = {**launcher.environment(home, os.defpath), "HOME": str(tmp_path)}
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    try:
        until(lambda: process.poll() is not None or out.read_text().count("\n") >= 2, "both ranks have begun")
        end.touch()
        assert process.wait(60) == 0, err.read_text()
        assert out.read_text().splitlines() == ["".join(f"{word}|" for word in WORDS)] * 2, err.read_text()
    finally:
        process.kill()
        process.wait()
