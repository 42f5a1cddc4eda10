"""A real launcher's job in the playground, as tests start it: its output, its end, and what it leaves."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from launcher_job import Job

    from agents.playground.pod_process import PodProcess

__all__ = ["DEADLINE_S", "Running", "until"]

DEADLINE_S = 60.0
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
        until(lambda: not self.job.leftovers(), "no process is left in a worker", 30.0)
