"""The agents as they run in a pod: the hub and the C client, and direct mode, against a stand-in cluster."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agents.playground.cluster import Cluster

WORKERS = ["worker-0", "worker-1"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 30.0
# Short enough to meet every limit in a test, long enough for a slow machine.
LIMITS = "start=20,acknowledge=12,worker=3,absent=3,unready=1,settle=10,reap=8,ping=0.5,silence=3"


class Direct:
    """Direct mode: every call is a process of its own."""

    name = "direct"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)
        self.argv = [sys.executable, "-I", "-S", "-E", os.path.join(ROOT, "rshagent", "__main__.py")]

    def log(self) -> str:
        """Direct mode keeps no log."""
        return ""

    def close(self) -> None:
        """Nothing runs between two calls."""


class WithHub:
    """A hub, and its client as the agent."""

    name = "hub"

    def __init__(self, environ: Mapping[str, str], client: str, folder: Path, *options: str) -> None:
        self.environ = dict(environ)
        self.argv = [client]
        self._options = options
        self._log = folder / "hub.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the hub and wait until it serves and has seen the workers."""
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rshagent.hub", *self._options],
                cwd=ROOT, env=self.environ, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        until(self._serves, "the hub serves")

    def kill(self) -> None:
        """End the hub as an OOM kill would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """Return the hub's log."""
        return self._log.read_text()

    def close(self) -> None:
        """End the hub as the kubelet does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(DEADLINE_S) == 0, self.log()

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        check = [sys.executable, "-m", "rshagent.hub", "--check"]
        return subprocess.run(check, cwd=ROOT, env=self.environ, stderr=subprocess.DEVNULL, check=False).returncode == 0


Agent = Direct | WithHub


def environment(cluster: Cluster, folder: Path, hosts: list[str], token: str | None = None) -> dict[str, str]:
    """Return the environment of an agent whose job has these hosts."""
    hostfile = folder / "hostfile"
    hostfile.write_text("".join(f"{host} slots=1\n" for host in hosts))
    return {
        **cluster.environ(token),
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "MPI_AGENT_HOSTFILE": str(hostfile),
        "MPI_AGENT_HOSTS": str(folder / "hosts"),
        "MPI_AGENT_SOCKET": str(folder / "hub.sock"),
        "MPI_AGENT_LIMITS": LIMITS,
        "MPI_AGENT_INSTANCE": secrets.token_hex(4),
    }


def start(agent: Agent, *words: str, **environ: str) -> subprocess.Popen[bytes]:
    """Call the agent, as mpirun would, and return its process."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*agent.argv, *words], env={**agent.environ, **environ}, stdin=pipe, stdout=pipe, stderr=pipe
    )


def run(agent: Agent, *words: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Call the agent and wait for its end."""
    process = start(agent, *words, **environ)
    try:
        out, err = process.communicate(stdin, DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
