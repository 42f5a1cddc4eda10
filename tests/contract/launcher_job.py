"""One MPI job in a stand-in cluster: launcher pod, workers, delivery and hub, in the order that a real job has them.

The agents run unchanged, as their own processes in the launcher pod, and find their files where a real pod has them.
Where pods can't have mounts of their own, environment variables say where the files are instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from agents.playground.pods import Pod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agents.playground.cluster import Cluster
    from agents.playground.launchers import Launcher
    from agents.playground.pod_process import PodProcess

Stream = int | IO[Any] | None

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_RIGHTS = ("get pods", "list pods", "watch pods", "get pods/exec", "create pods/exec")
_HUB_START_S = 60.0
_HUB_END_S = 60.0


@dataclass(frozen=True)
class Folders:
    """The launcher pod's volumes: config map, tools, and what client and hub share."""

    mpi: str = "/etc/mpi"
    kube: str = "/opt/kube"
    run: str = "/run/mpi-agents"

    @property
    def hostfile(self) -> str:
        """The workers and their slots."""
        return f"{self.mpi}/hostfile"

    @property
    def agent(self) -> str:
        """What launchers call."""
        return f"{self.mpi}/kubexec.sh"

    @property
    def client(self) -> str:
        """The client, where delivery puts it."""
        return f"{self.kube}/rshagent"

    @property
    def socket(self) -> str:
        """Where the hub serves."""
        return f"{self.run}/hub.sock"


class Job:
    """A job on `cluster`, which must have been given the launcher's environment. It ends with the cluster."""

    def __init__(self, cluster: Cluster, launcher: Launcher, *, workers: int, slots: int = 1, name: str = "pi") -> None:
        self.cluster = cluster
        self.launcher = launcher
        self.slots = slots
        self.pod = f"{name}-launcher"
        self.workers = [f"{name}-worker-{number}" for number in range(workers)]
        self.hub: PodProcess | None = None
        self._labels = {"job": name}
        self._volumes = Folders(*(os.path.join(cluster.folder, "volumes", one) for one in ("mpi", "kube", "run")))
        self._tools = os.path.join(cluster.folder, "tools")
        self.hub_log = os.path.join(cluster.folder, "hub.log")
        self.hub_termination_log = os.path.join(cluster.folder, "hub.termination-log")
        self.folders = self._volumes
        self._token = ""

    def create(self, worker_environ: Mapping[str, str] | None = None) -> None:
        """Create the pods, which are ready immediately."""
        for folder in (self._volumes.mpi, self._volumes.kube, self._volumes.run):
            os.makedirs(folder)
        inside = Folders()
        # Workers need the config map too: Open MPI 4's orted ends if plm_rsh_agent names no executable file.
        config = {inside.mpi: self._volumes.mpi}
        volumes = {**config, inside.kube: self._volumes.kube, inside.run: self._volumes.run}
        self.cluster.create_pod(Pod(self.pod, labels={**self._labels, "role": "launcher"}, mounts=volumes))
        labels = {**self._labels, "role": "worker"}
        environ = worker_environ or {}
        for worker in self.workers:
            self.cluster.create_pod(Pod(worker, labels=labels, mounts=config, environ=environ))
        if self.cluster.mounted(self.pod):
            self.folders = inside
        self._write_config()

    def add_client(self, client: str) -> None:
        """Put the client where an image has it."""
        os.makedirs(self._tools, exist_ok=True)
        shutil.copy2(client, os.path.join(self._tools, "rshagent"))

    def deliver(self, stderr: Stream = None) -> None:
        """Run delivery to its end: it copies the client and waits for the workers. Raises RuntimeError."""
        environ = {
            **self.agent_environment(),
            "TARGET_DIR": self.folders.kube,
            "MPI_AGENT_TOOLS": self._tools,
            "MPI_AGENT_TERMINATION_LOG": os.path.join(self.cluster.folder, "delivery.termination-log"),
        }
        command = [sys.executable, "-m", "delivery"]
        done = self.cluster.exec_local(
            self.pod, command, env=environ, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
        )
        code = done.wait()
        if code != 0:
            raise RuntimeError(f"delivery ended with {code}")

    def start_hub(self, *options: str, wait: bool = True) -> None:
        """Start the hub, and wait until it answers `--check`. Raises RuntimeError."""
        with open(self.hub_log, "ab") as log, open(self.hub_termination_log, "wb"):
            command = [sys.executable, "-m", "rshagent.hub", "--selector", self._selector(), *options]
            environ = {**self.agent_environment(), "MPI_AGENT_TERMINATION_LOG": self.hub_termination_log}
            self.hub = self.cluster.exec_local(
                self.pod, command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if wait:
            self.wait_for_hub()

    def wait_for_hub(self) -> None:
        """Wait until the hub serves. Raises RuntimeError."""
        socket = os.path.join(self._volumes.run, "hub.sock")
        deadline = time.monotonic() + _HUB_START_S
        while not os.path.exists(socket):
            if self.hub is None or self.hub.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the hub did not start: {(self.hub_lines() or ['no word from it'])[-1]}")
            time.sleep(0.01)

    def stop_hub(self) -> int:
        """Tell the hub to end; its exit code."""
        if self.hub is None:
            return 0
        self.hub.terminate()
        return self.hub.wait(_HUB_END_S)

    def hub_lines(self) -> list[str]:
        """The hub's log so far."""
        with open(self.hub_log, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()

    def launch(
        self,
        ranks: int,
        program: Sequence[str],
        *,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
        text: bool = False,
    ) -> PodProcess:
        """Start the launcher's command in the launcher pod: it has no token, and no other way to the workers."""
        command = self.launcher.command(ranks, len(self.workers), self.folders.hostfile, [*options, *program])
        return self.cluster.exec_local(
            self.pod,
            command,
            env={**self.launcher_environment(), **(env or {})},
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=text,
        )

    def call(self, arguments: Sequence[str], **streams: Any) -> PodProcess:
        """Start the agent itself in the launcher pod, as a launcher would."""
        return self.cluster.exec_local(
            self.pod, [self.folders.agent, *arguments], env=self.launcher_environment(), **streams
        )

    def leftovers(self) -> dict[str, list[list[str]]]:
        """What still runs in the workers: command lines by pod; pods without any left out."""
        found = {worker: [one.argv for one in self.cluster.leftovers(worker)] for worker in self.workers}
        return {worker: lines for worker, lines in found.items() if lines}

    def launcher_environment(self) -> dict[str, str]:
        """What the operator puts into the launcher's container."""
        return {
            **job_environment(
                agent=self.folders.agent,
                hostfile=self.folders.hostfile,
                workers=len(self.workers),
                slots=self.slots,
            ),
            "MPI_AGENT_SOCKET": self.folders.socket,
        }

    def agent_environment(self) -> dict[str, str]:
        """What it puts into the containers of hub and delivery: only these hold the token."""
        if not self._token:
            self._token = self.cluster.token(*_RIGHTS)
        return {
            **self.cluster.environ(self._token),
            "MPI_AGENT_SOCKET": self.folders.socket,
            "MPI_AGENT_HOSTFILE": self.folders.hostfile,
            "MPI_AGENT_HOSTS": f"{self.folders.kube}/hosts",
            "MPI_AGENT_SELECTOR": self._selector(),
            "PYTHONPATH": _ROOT,
        }

    def _selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in {**self._labels, "role": "worker"}.items())

    def _write_config(self) -> None:
        """The job's config map: hostfile and kubexec.sh, which is the client's one line."""
        with open(os.path.join(self._volumes.mpi, "hostfile"), "w", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in hostfile(self.launcher, self.workers, self.slots))
        script = os.path.join(self._volumes.mpi, "kubexec.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!{self.folders.client}\n")
        os.chmod(script, 0o755)


def hostfile(launcher: Launcher, workers: Sequence[str], slots: int) -> list[str]:
    """The hostfile's lines."""
    form = "{} slots={}" if launcher.implementation == "OpenMPI" else "{}:{}"
    return [form.format(worker, slots) for worker in workers]


def job_environment(*, agent: str, hostfile: str, workers: int, slots: int) -> dict[str, str]:
    """What every launcher of a job must be told, for all families together: who knows which one the image holds.

    Tree spawn is off, because workers would start workers (Open MPI above 64, Intel above 16) and would need rights for
    it; and as many agents may run as there are workers, because Open MPI 5 stays attached to each and waits for ever at
    the 129th. Open MPI 5 reads no OMPI_MCA_plm_*.
    """
    count = str(workers)
    return {
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_plm_rsh_num_concurrent": count,
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_num_concurrent": count,
        "PRTE_MCA_prte_default_hostfile": hostfile,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": agent,
        "HYDRA_HOST_FILE": hostfile,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
        "I_MPI_HYDRA_HOST_FILE": hostfile,
        "I_MPI_HYDRA_BRANCH_COUNT": count,
        "I_MPI_PERHOST": str(slots),
    }
