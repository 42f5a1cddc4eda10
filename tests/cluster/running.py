"""A job that was applied: what its launcher prints, how it ends, and what it leaves in the workers."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tests.cluster import pods as of
from tests.cluster.kube import DEADLINE_S, WaitError, until

if TYPE_CHECKING:
    from tests.cluster.jobs import Job
    from tests.cluster.kube import Namespace

_SESSION = re.compile(r" session=(?P<session>\S+) host=(?P<host>\S+) .*exit=(?P<exit>\S+) result=(?P<result>\S+)")
# Every process but the first, and this shell: "pid (name) state parent …".
_PROCESSES = (
    'for p in /proc/[1-9]*; do [ $p = /proc/1 ] || [ $p = /proc/$$ ] || read -r l <$p/stat && echo "$l"; l=; done'
)
_START_S = 180.0


def ranks_in(output: str) -> dict[int, str]:
    """Where the pi program's ranks have said they are: host by rank."""
    return {int(rank): host for rank, host in re.findall(r"rank (\d+) of \d+ on (\S+)", output)}


class Running:
    """A job in a namespace."""

    def __init__(self, namespace: Namespace, job: Job) -> None:
        self.namespace, self.job = namespace, job
        self.launcher = job.launcher_name
        self.main = str(job.main["name"])

    def start(self) -> Running:
        """Create all of the job's objects."""
        self.namespace.apply(self.job.objects)
        return self

    @property
    def output(self) -> str:
        """What the user's container in the launcher pod has printed so far, stdout and stderr."""
        return self.namespace.logs(self.launcher, self.main)

    def hub_log(self) -> str:
        """What the hub has printed so far."""
        return self.namespace.logs(self.launcher, "hub")

    def until_started(self, deadline_s: float = _START_S) -> None:
        """Wait until mpirun's container has started: workers are ready, delivery is done. Raises WaitError."""
        # An init container that will not be restarted ends the wait as well: the picture says which.
        pod = self.namespace.wait(
            self.launcher,
            lambda pod: (
                of.phase(pod) in ("Succeeded", "Failed") or {"running", "terminated"} & of.state(pod, self.main).keys()
            ),
            f"has started {self.main}",
            deadline_s,
        )
        if "waiting" in of.state(pod, self.main):
            raise WaitError(
                f"{self.main} was never started\n{of.picture([pod])}\n{self.namespace.logs(self.launcher, 'delivery')}"
            )

    def until_output(self, text: str, times: int = 1, deadline_s: float = DEADLINE_S) -> str:
        """Wait until mpirun has started, then until `text` was printed so often; its output. Raises WaitError."""
        self.until_started()
        return self.namespace.wait_log(self.launcher, self.main, text, times, deadline_s)

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait until mpirun has started, and then for its end; its exit code. Raises WaitError."""
        self.until_started()
        return self.namespace.wait_exit(self.launcher, self.main, deadline_s)

    def sessions(self) -> list[dict[str, str]]:
        """The hub's log of what has ended: `session`, `host`, `exit`, `result`; all of it where mpirun has ended."""
        self.namespace.wait(
            self.launcher,
            lambda pod: of.is_running(pod, self.main) or not of.is_running(pod, "hub"),
            "has a hub that has ended after mpirun",
        )
        lines = self.hub_log().splitlines()
        return [match.groupdict() for line in lines if (match := _SESSION.search(line))]

    def sessions_by_host(self) -> Counter[str]:
        """How often each worker was called."""
        return Counter(one["host"] for one in self.sessions())

    def ranks(self) -> dict[int, str]:
        """Where the pi program's ranks said they are: host by rank."""
        return ranks_in(self.output)

    def processes(self, worker: str, container: str | None = None) -> list[str]:
        """The names of the processes in a worker, but its first and the `sleep` that this waits for."""
        done = self.namespace.exec_in(worker, ["/bin/sh", "-c", _PROCESSES], container)
        found = re.findall(r"^\d+ \((.*)\) \S (\d+) ", done.output, re.MULTILINE)
        return [name for name, parent in found if (name, parent) != ("sleep", "1")]

    def leftovers(self) -> dict[str, list[str]]:
        """The names of processes of the job that are still in workers, by worker."""
        found = {worker: self.processes(worker) for worker in self.job.workers}
        return {worker: names for worker, names in found.items() if names}

    def assert_nothing_left(self, deadline_s: float = 30.0) -> None:
        """No process of the job is left in any worker, or they go within the deadline."""
        until(lambda: f"nothing is left, but {self.leftovers()}", lambda: not self.leftovers(), deadline_s)
