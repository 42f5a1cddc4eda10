"""Every shell this machine has, as the /bin/sh of a place of its own."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from rshagent.call.bootstrap import Mark

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = [name for name in ("dash", "bash", "busybox", "mksh", "ksh93", "zsh") if shutil.which(name)]
LAUNCHER = f"launcher-{os.getpid()}"  # no other run of these tests may be signalled
MARK = Mark(LAUNCHER, "pod-0", "11-22", "session")
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    # Names that the bootstrap could be tempted to use.
    **{name: f"mine {name}" for name in ("s", "d", "f", "l", "m", "n", "p", "r")},
}


class Place:
    """A shell as /bin/sh, with folders of its own for the kept status."""

    def __init__(self, shell: str, folder: Path) -> None:
        self.shell = shell
        self.sh = folder / shell / "sh"
        self.sh.parent.mkdir()
        self.sh.symlink_to(shutil.which(shell) or "")
        self.folders = [folder / "shm", folder / "tmp"]
        for each in self.folders:
            each.mkdir()

    def placed(self, command: list[bytes]) -> list[bytes]:
        """Have a command list use this place; TEXT, its last element, stays as it is."""
        folders = " ".join(map(str, self.folders)).encode()
        ours = [
            part.replace(b"/bin/sh", bytes(self.sh)).replace(b"/dev/shm /tmp /var/tmp", folders) for part in command[:3]
        ]
        return ours + command[3:]

    def kept(self, folder: int = 0) -> str:
        return (self.folders[folder] / ".mpi-agent-status").read_text()


@pytest.fixture(params=SHELLS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)
