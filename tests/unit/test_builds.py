"""Compiling the client and sshd-start: what is said where it can't be, and what is promised of sshd-start's files."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rshagent.native import client_build
from sshd_bootstrap import start_build

if TYPE_CHECKING:
    from pathlib import Path

COMPLAINTS = {
    "static C library": "/usr/bin/ld: cannot find -lc: No such file or directory",
    "sanitizers": "/usr/bin/ld: cannot find libasan.so.8: No such file or directory",
    "error: no such thing": "client.c: In function 'main':\nclient.c:1:2: error: no such thing\nmore",
    "exit status 1": "",
}


@pytest.mark.parametrize(("expected", "complaint"), COMPLAINTS.items(), ids=COMPLAINTS)
def test_a_compiler_that_fails_is_one_line(
    expected: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler, out = tmp_path / "cc", tmp_path / "rshagent"
    compiler.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{complaint}\nEND\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert client_build.main([str(out)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("client_build: ")
    assert expected in told
    assert told.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [compiler]


def test_no_compiler_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert client_build.main([str(tmp_path / "rshagent")]) == 1
    expected = "client_build: no C compiler: no-such-compiler can't be run; install gcc or clang, or set CC\n"
    assert capsys.readouterr().err == expected


def test_a_program_is_kept_until_what_makes_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "one.c").write_text('#include "one.h"\nint main(void) { return ONE; }\n')
    header, made = tmp_path / "one.h", []
    for code in (3, 4, 3):
        header.write_text(f"#define ONE {code}\n")
        made.append(client_build.kept("one", [str(tmp_path / "one.c")]))
        assert subprocess.run(made[-1], check=False).returncode == code
    assert made[0] == made[2] != made[1]
    monkeypatch.setenv("XDG_CACHE_HOME", str(header))
    with pytest.raises(client_build.BuildError, match="XDG_CACHE_HOME"):
        client_build.kept("one", [str(tmp_path / "one.c")])


def test_a_target_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "none" / "rshagent"
    assert client_build.main([str(out)]) == 1
    told = capsys.readouterr().err
    assert told == f"client_build: the client can't be written to {out}: No such file or directory\n"


@pytest.mark.parametrize("source", start_build.SOURCES, ids=os.path.basename)
def test_a_file_of_sshd_start_has_at_most_250_lines(source: str) -> None:
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert len(lines) <= 250
    assert max(map(len, lines)) <= 120


def test_a_target_of_sshd_start_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start_build.main([str(tmp_path / "none" / "sshd-start")]) == 1
    assert capsys.readouterr().err.startswith("start_build: ")


CLIENT = "rshagent.native.client_build OUT [--sanitize] [--direct-start] [--k8s-launch] [--pause] [--runner] [--wrap]"


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--sanitize"], ["a", "--other"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for build, usage in (
        (client_build.main, CLIENT),
        (start_build.main, "sshd_bootstrap.start_build OUT [--sanitize]"),
    ):
        assert build(arguments) == 2
        assert capsys.readouterr().err == f"usage: python -m {usage}\n"
