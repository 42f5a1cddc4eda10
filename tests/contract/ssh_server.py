"""A real sshd, and keys."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from running import DEADLINE_S

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

SSHD = "/usr/sbin/sshd"
NO_SSHD = "" if os.path.exists(SSHD) else f"no {SSHD}: the tests by a real sshd are left out (Debian: openssh-server)"
needs_sshd = pytest.mark.skipif(bool(NO_SSHD), reason=NO_SSHD)


def new_key(path: Path) -> None:
    """Make a pair of keys."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, stdout=subprocess.PIPE)


class SshServer:
    """An sshd of our own, with no more than what a test needs."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self.port = port
        os.makedirs("/run/sshd" if os.getuid() == 0 else folder, exist_ok=True)
        self.host_key = folder / "host_key"
        if not self.host_key.exists():
            new_key(self.host_key)
        self.pid_file = folder / "run" / "sshd.pid"
        self.pid_file.parent.mkdir(exist_ok=True)
        self._log = folder / "sshd.log"
        config = ["-f", "/dev/null", "-h", str(self.host_key), "-p", str(port), "-o", f"PidFile={self.pid_file}"]
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", *config, *options], stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        until(self._listens, f"sshd listens: {self.log()}")

    def __enter__(self) -> SshServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()

    def log(self) -> str:
        """Return what sshd said."""
        return self._log.read_text()

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal."""
        self.process.send_signal(number)
        self.process.wait(DEADLINE_S)

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log()
        return "Server listening" in self.log() and self.pid_file.exists()
