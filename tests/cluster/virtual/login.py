"""The launcher of a job in debug mode, as its user meets it who has logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.faults import until
from tests.cluster.running import ranks_in

if TYPE_CHECKING:
    from tests.cluster.kube import Done
    from tests.cluster.operator.submitted import Submitted

URI = "/tmp/dvm.uri"  # in a container of its own


class Login:
    """Each command is a session of its own: the user has logged out before the next."""

    def __init__(self, running: Submitted) -> None:
        """Wait until its pods are ready."""
        self.running, self.namespace, self.workers = running, running.namespace, running.job.workers
        running.until_condition("Running")
        self.namespace.wait_ready([running.launcher, *self.workers])

    def type(self, line: str) -> Done:
        """Type a line into a login shell in the launcher, and wait for its end."""
        return self.namespace.exec_in(self.running.launcher, ["/bin/bash", "-lc", line], "mpi")

    def run(self, line: str) -> str:
        """Type a line that ends with 0; its output."""
        done = self.type(line)
        assert done.code == 0, f"{line}: {done}"
        return done.output

    def start_dvm(self) -> None:
        """Start a DVM in all workers, and leave it to itself."""
        self.run(f"prte --daemonize --report-uri {URI}")
        found = self.daemons()
        assert found == ["prte", *["prted"] * len(self.workers)], found

    def end_dvm(self) -> None:
        """End it, and wait until no daemon is left."""
        self.run(f"pterm --dvm-uri file:{URI}")
        self.until_no_dvm()

    def until_no_dvm(self) -> None:
        """Wait until no daemon is left anywhere. Raises WaitError."""
        until("no daemon is left", lambda: not self.daemons())

    def daemons(self) -> list[str]:
        """The names of the daemons in launcher and workers, each once for a pod: a daemon may be two processes."""
        found: list[str] = []
        for pod in (self.running.launcher, *self.workers):
            names = self.namespace.exec_in(pod, ["/bin/ps", "-eo", "comm="], "mpi").output.split()
            found += {"prte", "prted"}.intersection(names)
        return found

    def ranks(self, launch: str = f"prun --dvm-uri file:{URI}") -> dict[int, str]:
        """Have `pi` run by two ranks in each worker, in the DVM if nothing else is said; host by rank."""
        output = self.run(f"{launch} --map-by ppr:2:node pi")
        assert "pi is approximately 3.14159265" in output
        return ranks_in(output)
