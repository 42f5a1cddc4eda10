"""How prun is run in a login pod: by a real shell, with a program of its name."""

from __future__ import annotations

import os
import subprocess
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from agents.client.prun import command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Has a prun that runs the words behind its four own."""
    prun = tmp_path / "prun"
    prun.write_text('#!/bin/sh\n[ "$1 $3" = "--dvm-uri -n" ] || exit 99\nshift 4\nexec "$@"\n')
    prun.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_exit_code_output_and_arguments(environ: dict[str, str]) -> None:
    words = command(2, ["sh", "-c", 'cat; echo "$0"; echo err >&2; exit 7', "a  b"])
    with subprocess.Popen(words, env=environ, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # Whoever reads the streams to their ends is not held up by the part that waits for the end of stdin.
        assert (process.stdout.read(), process.stderr.read()) == ("a  b\n", "err\n")
        assert process.wait(30) == 7


def test_the_end_of_stdin_ends_it(environ: dict[str, str]) -> None:
    words = command(2, ["sh", "-c", "echo runs; exec sleep 1000"])
    with subprocess.Popen(words, env=environ, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "runs\n"
        process.stdin.close()
        assert process.wait(30) == 128 + 15
