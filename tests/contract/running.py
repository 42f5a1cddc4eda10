"""The agent as it runs in a pod, the hub and the C client, against a stand-in cluster."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from agents.playground.cluster import Cluster

WORKERS = ["worker-0", "worker-1"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 60.0
USER = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]  # for `unshare`
# Short enough to meet every limit in a test, long enough for a slow machine.
LIMITS = "start=20,acknowledge=12,worker=3,absent=3,unready=1,settle=10,reap=8,ping=0.5,silence=3"


class Agent:
    """What a launcher calls. Use it as a context: at its end nothing of it runs, however the test went."""

    def __init__(self, environ: Mapping[str, str], *argv: str) -> None:
        self.environ = dict(environ)
        self.argv = list(argv)
        self.sessions: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
            else:
                sys.stderr.write(self.log())  # of a wait without an end it is all that tells
                self.kill()
        finally:
            for session in self.sessions:
                with session:
                    session.kill()

    def log(self) -> str:
        """Return the log, where one is kept."""
        return ""

    def kill(self) -> None:
        """End what runs between two calls, as an OOM kill would."""

    def close(self) -> None:
        """End what runs between two calls, as the kubelet does."""


class WithHub(Agent):
    """A hub, and its client as the agent."""

    prefix: tuple[str, ...] = ()  # what the hub's command begins with

    def __init__(self, environ: Mapping[str, str], client: str, folder: Path, *options: str) -> None:
        super().__init__(environ, client)
        self._options = options
        self._log = folder / "hub.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the hub and wait until it serves and has seen the workers."""
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "rshagent.hub", *self._options],
                cwd=ROOT, env=self.environ, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            until(self._serves, "the hub serves")
        except BaseException:
            self.kill()
            raise

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
            try:
                code = self.process.wait(DEADLINE_S)
            finally:
                self.kill()
            assert code == 0, self.log()

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        check = [sys.executable, "-m", "rshagent.hub", "--check"]
        return subprocess.run(check, cwd=ROOT, env=self.environ, stderr=subprocess.DEVNULL, check=False).returncode == 0


class InItsContainer(WithHub):
    """A hub in a process namespace of its own, as containers of a pod have them: other containers' are not seen."""

    prefix = ("unshare", *USER, "--pid", "--fork", "--kill-child", "--mount-proc")

    def close(self) -> None:
        self.kill()


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


def spawn(
    agent: Agent,
    words: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Call the agent and return its process, which ends with the agent's context at the latest."""
    environ = {**agent.environ, **(environ or {})}
    process = subprocess.Popen([*agent.argv, *words], env=environ, stdin=stdin, stdout=stdout, stderr=stderr)
    agent.sessions.append(process)
    return process


def start(agent: Agent, *words: str, **environ: str) -> subprocess.Popen[bytes]:
    """Call the agent, as mpirun would, and return its process."""
    pipe = subprocess.PIPE
    return spawn(agent, words, environ, stdin=pipe, stdout=pipe, stderr=pipe)


def run(agent: Agent, *words: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """Call the agent and wait for its end."""
    process = start(agent, *words, **environ)
    out, err = process.communicate(stdin, DEADLINE_S)
    return subprocess.CompletedProcess(words, process.returncode, out, err)
