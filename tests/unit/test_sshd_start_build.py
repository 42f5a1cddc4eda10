"""Compiling sshd-start, and what is promised of its files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sshd_bootstrap import start_build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("source", start_build.SOURCES, ids=os.path.basename)
def test_a_file_has_at_most_250_lines(source: str) -> None:
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert len(lines) <= 250
    assert max(map(len, lines)) <= 120


def test_a_target_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start_build.main([str(tmp_path / "none" / "sshd-start")]) == 1
    assert capsys.readouterr().err.startswith("start_build: ")


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--sanitize"], ["a", "--other"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert start_build.main(arguments) == 2
    assert capsys.readouterr().err == "usage: python -m sshd_bootstrap.start_build OUT [--sanitize]\n"
