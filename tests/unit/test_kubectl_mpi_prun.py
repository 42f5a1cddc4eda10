"""How a program that prun has started is ended: by a real shell, on real processes."""

from __future__ import annotations

import os
import subprocess

from agents.client.prun import command, end, new_mark


def test_what_has_the_mark_is_ended_and_nothing_else() -> None:
    mark, other = new_mark(), new_mark()
    sleep = ["sleep", "1000"]
    marked = [
        subprocess.Popen(sleep, env={**os.environ, "TEXT": "two\nlines", **dict([one.split("=")])})
        for one in (mark, mark, other)
    ]
    try:
        assert subprocess.run(end(mark), check=True, capture_output=True).stdout == b""
        assert [one.wait(30) for one in marked[:2]] == [-15, -15]
        assert marked[2].poll() is None
    finally:
        for one in marked:
            one.kill()
            one.wait()


def test_the_call() -> None:
    words = ["prun", "--dvm-uri", "file:/run/mpi-dvm/uri", "-x", "A=1", "-n", "2", "--map-by", "node", "pi"]
    assert command("A=1", 2, ["--map-by", "node", "pi"]) == words
