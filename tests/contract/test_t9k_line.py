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

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["a b", "$HOME", "it's", "*", 'say "x"', "", "-N", "\\"]
# A line of each rank by one write(2): mpirun mixes the pieces that come one by one.
TELL = ["/bin/sh", "-c", 'line=$(printf "%s|" "$@"); printf "%s\\n" "$line"', "tell", *WORDS]
RECOVERY = ["--enable-recovery", "--max-restarts", "100", "--allow-run-as-root"]  # as in T9k's examples


@pytest.mark.parametrize("by_shell", [False, True])  # as the launcher runs it, and as its user types it
@pytest.mark.parametrize("name", ["openmpi4", "openmpi5"])
def test_ranks_get_the_words(tmp_path: Path, name: str, by_shell: bool) -> None:
    launcher = LAUNCHERS[name]
    home = wheels.installed(launcher, print)
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("localhost slots=2\n")
    line = launch_command(home, {"btl": "^openib", "pml": "ob1"}, ["-N", "2", *RECOVERY], TELL)
    words = [str(hostfile) if word == HOSTFILE else word for word in line]
    done = subprocess.run(
        ["/bin/sh", "-c", shlex.join(words)] if by_shell else words,
        env={**launcher.environment(home, os.defpath), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, ["".join(f"{word}|" for word in WORDS)] * 2), done.stderr
