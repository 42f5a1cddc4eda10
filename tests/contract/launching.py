"""A real launcher's job in the playground, as tests start it: its output, its end, and what it leaves."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from launcher_job import Job

from agents.playground import wheels
from agents.playground.cluster import Cluster
from agents.playground.launchers import LAUNCHERS
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from agents.playground.pod_process import PodProcess

    Start = Callable[..., "Running"]

DEADLINE_S = 120.0

ALL = ["openmpi5", "openmpi4", "mpich", "impi", "horovod"]
MPI = [name for name in ALL if LAUNCHERS[name].mpi]
# Open MPI 4's agents return as soon as the daemon is up; the others' live as long as the job.
ATTACHED = ["openmpi5", "mpich", "impi"]

# Ranks wait at a gate: a test can do things in mid-job, and no rank ends before the last has started. Open MPI 5 may
# wait for ever when one does, whatever the agent: at a hundred hosts most times, at two hardly ever.
WAIT = 'read -r _ < "$1" && echo "over"; exit "${2:-0}"'
WAITING = f'echo "at $(uname -n)"; {WAIT}'
_SESSION = re.compile(r" session=(?P<session>\S+) host=(?P<host>\S+) .*exit=(?P<exit>\S+) result=(?P<result>\S+)")


class Running:
    """A launcher that was started."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self._out = folder / "stdout"
        self._err = folder / "stderr"
        self.process: PodProcess

    def start(self, program: Sequence[str], *, ranks: int | None = None, stdin: Any = subprocess.DEVNULL) -> Running:
        """Start `program`: one rank on each worker, if nothing else is said."""
        count = len(self.job.workers) if ranks is None else ranks
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = self.job.launch(count, program, stdin=stdin, stdout=out, stderr=err)
        return self

    @property
    def output(self) -> str:
        """Its stdout so far."""
        return self._out.read_text(errors="replace")

    @property
    def errors(self) -> str:
        """Its stderr so far."""
        return self._err.read_text(errors="replace")

    def until_output(self, text: str, times: int = 1, deadline_s: float = DEADLINE_S) -> None:
        """Wait until `text` was printed so often."""
        end = time.monotonic() + deadline_s
        while True:
            ended = self.process.poll() is not None
            if (count := self.output.count(text)) >= times:
                return
            state = f"{count} of {times} {text!r}\n{self.output[-2000:]}\n{self.errors[-2000:]}"
            assert not ended, f"it ended with {self.process.returncode}: {state}"
            assert time.monotonic() < end, f"not within {deadline_s:g} s: {state}"
            time.sleep(0.02)

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Wait for its end; its exit code. What it wrote stands in the failure."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            log = "\n".join(self.job.hub_lines()[-20:])
            raise AssertionError(f"it runs on\n{self.output[-2000:]}\n{self.errors[-2000:]}\n{log}") from None

    def agents(self) -> list[int]:
        """Process ids of the agents that the launcher has called and that still run."""
        inside = self.job.cluster.leftovers(self.job.pod)
        return [one.pid for one in inside if one.argv and one.argv[0] == self.job.folders.client]

    def sessions(self) -> list[dict[str, str]]:
        """The hub's log of what has ended: `session`, `host`, `exit`, `result`."""
        lines = self.job.hub_lines()
        return [match.groupdict() for line in lines if (match := _SESSION.search(line)) and "result=" in line]

    def until_ended(self, times: int, *results: str) -> list[dict[str, str]]:
        """Wait until the hub has logged so many sessions with one of these results, and return them."""

        def found() -> list[dict[str, str]] | None:
            ended = [one for one in self.sessions() if one["result"] in results]
            return ended if len(ended) >= times else None

        return until(found, f"{times} sessions are {' or '.join(results)}")

    def sessions_by_host(self) -> Counter[str]:
        """How often each worker was called, once all calls have ended."""
        until(lambda: not self.agents(), "all agents have ended")
        return Counter(one["host"] for one in self.sessions())

    def assert_nothing_left(self) -> None:
        """No process is left in any worker."""
        until(lambda: not self.job.leftovers(), "no process is left in a worker")


class Gate:
    """Where ranks wait until a test lets them end: a pipe that each reads a line from.

    They sleep in the kernel. Shells that looked for a file ten times a second took more than a core at 130 ranks.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def open(self) -> None:
        """Let all ranks end, also those that come later."""
        os.write(self._fd, b"\n" * 1000)

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path, client: str) -> Iterator[Start]:
    """Make the stage for a launcher; with a program, start it."""
    clusters: list[Cluster] = []

    def started(name: str, *program: str, workers: int = 2, **how: Any) -> Running:
        launcher = LAUNCHERS[name]
        if name == "impi" and platform.machine() != "x86_64":
            pytest.skip("Intel MPI is for x86_64 alone")
        prefix = wheels.installed(launcher, print)
        cluster = Cluster(tmp_path / "c", environ=launcher.environment(prefix, os.defpath))
        clusters.append(cluster)
        cluster.start()
        job = Job(cluster, launcher, workers=workers)
        job.create(worker_environ=how.pop("worker_environ", {}))
        job.add_client(client)
        job.start_hub()
        job.deliver(subprocess.DEVNULL)
        running = Running(job, tmp_path)
        return running.start(program, **how) if program else running

    yield started
    for cluster in clusters:
        cluster.close()


def hosts_told(running: Running) -> set[str]:
    """The hosts that ranks said they are on; all, where pods can't have host names of their own."""
    workers = set(running.job.workers)
    if not running.job.cluster.mounts:
        return workers
    return set(re.findall(r"\bat (\S+)", running.output))


def run_a_rank_on_every_worker(start: Start, gate: Gate, name: str, workers: int) -> None:
    """Each worker gets one rank, from the launcher itself."""
    running = start(name, "sh", "-c", WAITING, "sh", gate.path, workers=workers)
    running.until_output("at ", workers, 120)
    # Before the end: for a daemon that is still there a second after its agent was killed there is one more.
    requests = running.job.cluster.stats()["requests"]["exec"]
    gate.open()
    assert running.end() == 0, running.errors
    assert running.output.count("over") == workers
    assert hosts_told(running) == set(running.job.workers)
    calls = running.sessions_by_host()
    assert set(calls) == set(running.job.workers)
    if LAUNCHERS[name].mpi:  # one call a worker, all from the launcher: no tree
        assert set(calls.values()) == {1}
    assert requests == sum(calls.values())
    running.assert_nothing_left()
