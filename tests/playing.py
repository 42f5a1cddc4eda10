"""Commands that run jobs without a cluster, as people call them: what they print, how they end, what they leave."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KUBECTL = shutil.which("kubectl", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))


class Playground:
    """A command that runs jobs on this machine, its temporary files in a folder of the test's."""

    def __init__(self, folder: Path, temporary: str, module: str) -> None:
        self._module = module
        self.temporary = temporary
        self._out = folder / "out"
        self._err = folder / "err"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start_with([], *arguments)

    def start_with(self, prefix: list[str], *arguments: str) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "TMPDIR": self.temporary}
        command = [*prefix, sys.executable, "-m", self._module, *arguments]
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        return self.process

    @property
    def output(self) -> str:
        return self._out.read_text()

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def kubectl(self, line: str) -> str:
        """What a line with kubectl prints, of a playground that is `up`."""
        environ = {**os.environ, "PATH": f"{os.path.dirname(str(KUBECTL))}:{os.environ['PATH']}"}
        environ["KUBECONFIG"] = self.output.partition("export KUBECONFIG=")[2].split()[0]
        done = subprocess.run(line.split(), env=environ, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    def processes(self) -> list[int]:
        """All whose environment or command line holds our folder: pods, hub, server."""
        needle = os.fsencode(self.temporary)
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            for file in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{name}/{file}", "rb") as told:
                        if needle in told.read() and int(name) != os.getpid():
                            found.append(int(name))
                            break
                except OSError:
                    pass
        return found


@contextlib.contextmanager
def playing(folder: Path, module: str) -> Iterator[Playground]:
    """A command to be started, which is killed at the end."""
    # Not below `folder`: where pods can't have mounts, a socket's path of at most 107 bytes is in it.
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as temporary:
        playground = Playground(folder, temporary, module)
        try:
            yield playground
        finally:
            if playground.process is not None:
                playground.process.kill()
                playground.process.wait()
