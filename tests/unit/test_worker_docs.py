"""docs/worker.md tells every exit code, setting and metric there is, and no other."""

from __future__ import annotations

import os
import re

import pytest

from agents.worker import cli

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*path: str) -> str:
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def text() -> str:
    return read("docs", "worker.md")


def test_exit_codes(text: str) -> None:
    table = text.partition("## Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {
        0, cli.USAGE, cli.CANNOT_SERVE,
    }  # fmt: skip


def test_settings(text: str) -> None:
    table = text.partition("## Settings")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert told == set(re.findall(r'"(MPI_[A-Z_]+)"', read("agents", "worker", "settings.py")))


def test_metrics(text: str) -> None:
    table = text.partition("## Metrics")[2].partition("\n## ")[0]
    told = set(re.findall(r"`mpi_worker_(\w+)", table))
    assert told == set(re.findall(r'"mpi_worker_(\w+)"', read("agents", "worker", "report.py")))
