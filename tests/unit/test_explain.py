"""MPI_AGENT_EXPLAIN: one JSON object, or one line and 255."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from rshagent.call.bootstrap import SHORT_TEXT
from rshagent.call.explain import explain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Explain = Callable[..., dict[str, Any]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "MPI_AGENT_HOSTFILE": str(tmp_path / "hostfile"),
        "MPI_AGENT_HOSTS": str(tmp_path / "hosts"),
        "MPI_AGENT_SERVICE_ACCOUNT": str(tmp_path),
    }


@pytest.fixture
def explained(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Explain:
    def explained(*words: str | bytes, **more: str) -> dict[str, Any]:
        assert explain([b"rshagent", *map(os.fsencode, words)], environ | more) == 0
        said = capsys.readouterr()
        assert said.err == ""
        assert said.out.endswith("\n")
        found = json.loads(said.out)
        assert list(found)[:5] == ["namespace", "pod", "container", "command", "ignored"]
        return dict(found)

    return explained


def test_any_host(explained: Explain) -> None:
    found = explained("-x", "-p", "22", "w-0", "echo", "a  b")
    assert (found["namespace"], found["pod"], found["container"]) == ("default", "w-0", None)
    assert found["command"][:2] == ["/bin/sh", "-c"]
    assert found["command"][3:] == ["sh", "echo a  b"]
    assert found["ignored"] == ["-x", "-p", "22"]
    assert "stdin" not in found


def test_what_is_shown_runs(explained: Explain) -> None:
    for by_stdin in ("0", "1"):
        found = explained("w-0", "printf %s ", b"'\xff'", ";exit 3", MPI_AGENT_TEXT_BY_STDIN=by_stdin)
        done = subprocess.run(
            [os.fsencode(word) for word in found["command"]],
            input=os.fsencode(found["stdin"]),
            capture_output=True,
            check=False,
        )
        assert (done.stdout, done.returncode) == (b"\xff", 3)


def test_text_by_stdin(explained: Explain) -> None:
    assert explained("w-0", "echo", MPI_AGENT_TEXT_BY_STDIN="1")["stdin"] == "echo\n"
    assert explained("w-0", "#" * (SHORT_TEXT + 1))["stdin"] == "#" * (SHORT_TEXT + 1) + "\n"
    assert "stdin" not in explained("w-0", "#" * SHORT_TEXT)


def test_container(explained: Explain) -> None:
    assert explained("w-0", "true", MPI_AGENT_CONTAINER="main")["container"] == "main"
    assert explained("--container=a", "w-0", "true", MPI_AGENT_CONTAINER="main")["container"] == "a"


def test_namespace(explained: Explain, tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("account\n")
    assert explained("w-0", "true")["namespace"] == "account"
    assert explained("w-0", "true", MPI_AGENT_NAMESPACE="variable")["namespace"] == "variable"
    assert explained("w-0.j.name.svc", "true", MPI_AGENT_NAMESPACE="variable")["namespace"] == "name"
    assert explained("slash/w-0", "true", MPI_AGENT_NAMESPACE="variable")["namespace"] == "slash"
    assert explained("--namespace", "option", "slash/w-0", "true")["namespace"] == "option"


def test_files(explained: Explain, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("10.0.0.1\tw-1\n")
    assert explained("10.0.0.1", "true")["pod"] == "w-1"
    (tmp_path / "hostfile").write_text("w-0.job slots=2\nw-1.job\n")
    assert explained("w-0", "true")["pod"] == "w-0"
    assert explained("10.0.0.1", "true")["pod"] == "w-1"


def test_here(explained: Explain) -> None:
    for host in ("localhost", os.uname().nodename):
        found = explained(host, "echo", "a")
        assert found["command"] == ["/bin/sh", "-c", "echo a"]
        assert (found["namespace"], found["pod"], found["container"]) == (None, None, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "no host given"),
        ("w-0", "no command given"),
        ("-Z w-0 true", "unknown option"),
        ("w-9 true", "workers are w-0, w-1"),
        ("a/../b true", "neither a pod's name"),
    ],
)
def test_mistakes(
    words: str, said: str, environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hostfile").write_text("w-0\nw-1\n")
    assert explain([b"rshagent", *os.fsencode(words).split()], environ) == 255
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rshagent: ")
    assert said in err
    assert err.count("\n") == 1


def test_file_that_cannot_be_read(environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hostfile").mkdir()
    assert explain([b"rshagent", b"w-0", b"true"], environ) == 255
    assert capsys.readouterr().err == f"rshagent: can't read {tmp_path}/hostfile: Is a directory\n"
