"""MPI_AGENT_EXPLAIN: what a call would ask of whom, as an object."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from rshagent.call.arguments import parse
from rshagent.call.bootstrap import SHORT_TEXT
from rshagent.call.explain import describe
from rshagent.call.hosts import LOCAL, Worker

WORKER = Worker("default", "w-0")


def explained(*words: str | bytes, found: Worker | str = WORKER, **environ: str) -> dict[str, Any]:
    described = describe(parse([b"rshagent", *map(os.fsencode, words)]), found, environ)
    shown = dict(json.loads(json.dumps(described)))
    assert list(shown)[:5] == ["namespace", "pod", "container", "command", "ignored"]
    return shown


def test_any_host() -> None:
    found = explained("-x", "-p", "22", "w-0", "echo", "a  b")
    assert (found["namespace"], found["pod"], found["container"]) == ("default", "w-0", None)
    assert found["command"][:2] == ["/bin/sh", "-c"]
    assert found["command"][3:] == ["sh", "echo a  b"]
    assert found["ignored"] == ["-x", "-p", "22"]
    assert "stdin" not in found


def test_what_is_shown_runs() -> None:
    for by_stdin in ("0", "1"):
        found = explained("w-0", "printf %s ", b"'\xff'", ";exit 3", MPI_AGENT_TEXT_BY_STDIN=by_stdin)
        done = subprocess.run(
            [os.fsencode(word) for word in found["command"]],
            input=os.fsencode(found["stdin"]),
            capture_output=True,
            check=False,
        )
        assert (done.stdout, done.returncode) == (b"\xff", 3)


def test_text_by_stdin() -> None:
    assert explained("w-0", "echo", MPI_AGENT_TEXT_BY_STDIN="1")["stdin"] == "echo\n"
    assert explained("w-0", "#" * (SHORT_TEXT + 1))["stdin"] == "#" * (SHORT_TEXT + 1) + "\n"
    assert "stdin" not in explained("w-0", "#" * SHORT_TEXT)


def test_container() -> None:
    assert explained("w-0", "true", MPI_AGENT_CONTAINER="main")["container"] == "main"
    assert explained("--container=a", "w-0", "true", MPI_AGENT_CONTAINER="main")["container"] == "a"


def test_here() -> None:
    found = explained("localhost", "echo", "a", found=LOCAL)
    assert found["command"] == ["/bin/sh", "-c", "echo a"]
    assert (found["namespace"], found["pod"], found["container"]) == (None, None, None)
