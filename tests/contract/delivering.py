"""Delivery as a process of its own, as a launcher's pod has it: its files, its environment, what it tells."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Delivery:
    """One at a time; `told` is what all of them have told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kube, self.hostfile = folder / "kube", folder / "hostfile"
        self.log = folder / "termination-log"
        self.log.touch()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOSTNAME": "pi-launcher",
            "TARGET_DIR": str(self.kube),
            "MPI_AGENT_HOSTFILE": str(self.hostfile),
            "MPI_AGENT_TERMINATION_LOG": str(self.log),
        }
        self._process: subprocess.Popen[str] | None = None
        self.told = ""

    def call(self, words: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it by these words; `environ`: what it has beside its own."""
        self._process = subprocess.Popen(
            words,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def until_told(self, words: str) -> str:
        """Return the next line that has `words` in it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.told += line
            if words in line:
                return line
        pytest.fail(f"ended without {words!r}; it told:\n{self.told}")

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        self.out, err = self.process.communicate()
        self.told += err
        assert "Traceback" not in self.told
        return self.process.returncode

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    @property
    def last_line(self) -> str:
        return self.told.splitlines()[-1]

    def hosts(self) -> list[str]:
        """The hosts file's lines after the first, which is this machine's own."""
        return (self.kube / "hosts").read_text().splitlines()[1:]
