"""What is compared: kubectl, and client and hub of today and of an earlier commit. All run the same commands."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .measure import BenchmarkError, Command, cpu_s, rss_mib

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_HUB_START_S, _HUB_END_S = 20.0, 30.0


class Peer(Protocol):
    """One way to run a command in a pod."""

    name: str

    def command(self, pod: str, text: str, *, stdin: bool = False) -> Command:
        """The process that runs `/bin/sh -c TEXT` in a pod; `stdin` says whether it forwards its input."""

    def cpu_s(self) -> float:
        """CPU time so far of what serves those processes."""

    def memory_mib(self) -> float:
        """Memory now of what serves those processes."""


class Kubectl:
    """`kubectl exec`, as kubectl-delivery's kubexec.sh runs it."""

    name = "kubectl"

    def __init__(self, program: str, kubeconfig: str, home: str) -> None:
        self._program = program
        self._environ = {"PATH": os.defpath, "HOME": home, "KUBECONFIG": kubeconfig}

    def command(self, pod: str, text: str, *, stdin: bool = False) -> Command:
        options = ["-i"] if stdin else []
        return Command([self._program, "exec", *options, pod, "--", "/bin/sh", "-c", text], self._environ)

    def cpu_s(self) -> float:
        return 0.0

    def memory_mib(self) -> float:
        return 0.0


class Agent(NamedTuple):
    """What a hub is started from: a tree of sources, and the client that was compiled from it."""

    name: str
    tree: str
    client: str


class Hub:
    """The client, and a hub of its own behind it, from `with` to its end."""

    def __init__(self, python: str, agent: Agent, environ: Mapping[str, str], folder: str) -> None:
        self.name = agent.name
        self._python, self._agent = python, agent
        self._environ = {**environ, "MPI_AGENT_SOCKET": os.path.join(folder, "hub.sock")}
        self._log = os.path.join(folder, "hub.log")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Hub:
        with open(self._log, "wb") as log:
            command = [self._python, "-m", "rshagent.hub"]
            self._process = subprocess.Popen(
                command, cwd=self._agent.tree, env=self._environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _HUB_START_S
        while not os.path.exists(self._environ["MPI_AGENT_SOCKET"]):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise BenchmarkError(f"the hub did not start: {self._last_line()}")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(_HUB_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def command(self, pod: str, text: str, *, stdin: bool = False) -> Command:
        options = [] if stdin else ["-n"]
        return Command([self._agent.client, *options, pod, text], self._environ)

    def cpu_s(self) -> float:
        assert self._process is not None
        return cpu_s(self._process.pid)

    def memory_mib(self) -> float:
        # In its pod nobody shares the interpreter with the hub; here the stand-in's processes do.
        assert self._process is not None
        return rss_mib(self._process.pid)

    def _last_line(self) -> str:
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return (file.read().splitlines() or ["no word from it"])[-1]
