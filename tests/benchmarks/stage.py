"""Where it is measured: a stand-in cluster in a process of its own, workers, and what the peers need to find them."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from agents.playground.cluster import Cluster

from .measure import ROOT, BenchmarkError
from .peers import Agent, Hub, Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .command import Say


class Stage:
    """A cluster with workers, ready to be called by each peer."""

    def __init__(self, folder: str, cluster: Cluster, workers: int, python: str, say: Say, beside: str | None) -> None:
        self.folder, self.say = folder, say
        self.workers = cluster.create_workers(workers)
        self._python = python
        self._agents = [_agent("hub", ROOT, folder)]
        if beside is not None:
            self._agents.append(_agent(beside, _checked_out(beside, folder), folder))
        self._hubs = 0
        hostfile = os.path.join(folder, "hostfile")
        with open(hostfile, "w", encoding="ascii") as file:
            file.writelines(f"{worker} slots=1\n" for worker in self.workers)
        home = os.path.join(folder, "home")
        os.makedirs(home)
        self._environ = {
            "PATH": os.defpath,
            "HOME": home,
            "POD_NAME": f"bench-{secrets.token_hex(4)}",
            "MPI_AGENT_HOSTFILE": hostfile,
            "MPI_AGENT_HOSTS": os.path.join(folder, "hosts"),
            **cluster.environ(),
        }
        self.kubectl = Kubectl(kubectl_program(), cluster.kubeconfig(), home)

    @contextlib.contextmanager
    def hubs(self) -> Iterator[list[Hub]]:
        """Fresh hubs, today's first: what one figure leaves in their memory is not the next one's."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self._hub(agent)) for agent in self._agents]

    def _hub(self, agent: Agent) -> Hub:
        self._hubs += 1
        folder = os.path.join(self.folder, f"hub-{self._hubs}")
        os.makedirs(folder)
        return Hub(self._python, agent, self._environ, folder)


def _checked_out(commit: str, folder: str) -> str:
    """The sources of a commit, in a folder of their own. Raises BenchmarkError."""
    tree = os.path.join(folder, "beside")
    os.makedirs(tree)
    with subprocess.Popen(["git", "-C", ROOT, "archive", commit, "agents", "rshagent"], stdout=subprocess.PIPE) as git:
        subprocess.run(["tar", "-x", "-C", tree], stdin=git.stdout, check=False)
    if git.returncode != 0:
        raise BenchmarkError(f"git has no commit {commit}")
    return tree


def _agent(name: str, tree: str, folder: str) -> Agent:
    """What is measured of a tree of sources, with its client compiled. Raises BenchmarkError."""
    client = os.path.join(folder, f"rshagent-{name}")
    (source,) = glob.glob("rshagent/**/client_build.py", root_dir=tree, recursive=True)
    module = source.removesuffix(".py").replace("/", ".")
    done = subprocess.run(
        [sys.executable, "-m", module, client], cwd=tree, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise BenchmarkError(done.stderr.strip())
    return Agent(name, tree, client)


@contextlib.contextmanager
def staged(workers: int, python: str, say: Say, beside: str | None = None) -> Iterator[Stage]:
    """Set the stage, and clear it. Raises BenchmarkError."""
    with (
        tempfile.TemporaryDirectory(prefix="mpi-agents-bench-") as folder,
        Cluster(os.path.join(folder, "cluster")) as cluster,
    ):
        yield Stage(folder, cluster, workers, python, say, beside)


def kubectl_program() -> str:
    """The kubectl of the environment we run in, and no other, so that its version is the one that was asked for."""
    path = os.path.join(sys.prefix, "bin", "kubectl")
    if not os.access(path, os.X_OK):
        raise BenchmarkError(f"{path} is missing: make bench installs it")
    return path
