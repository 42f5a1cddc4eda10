"""`demo`: a small job from start to end, and then what happened and how long each step took."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .job import describe
from .launchers import PROGRAMS
from .stage import Stage

if TYPE_CHECKING:
    from .job import Steps
    from .launchers import Launcher

_SESSION = re.compile(r"session=\S+ host=(\S+) seconds=(\S+) start=(\S+) exit=(\S+) result=(\S+)")


@dataclass(frozen=True)
class Session:
    """A line of the hub's log: one call of the agent."""

    host: str
    seconds: str
    start_s: str
    exit_code: str
    result: str


def demo(launcher: Launcher, *, workers: int, ranks_per_worker: int) -> int:
    """Show it. Returns 0, or the launcher's exit code."""
    began = time.monotonic()
    ranks = workers * ranks_per_worker
    _say(f"mpi-agents: a real {launcher.title} {launcher.version} starts real ranks, without ssh and without kubectl.")
    with Stage(launcher, workers=workers, slots=ranks_per_worker, tell=_say) as stage:
        cluster = stage.set_up()
        _say("This is the playground: its API server is a stand-in, and its pods are")
        _say(f"{describe(cluster)}.")
        _say("Real are delivery, hub, client and launcher.")
        _say("")
        stage.start([_way(number) for number in range(workers)])
        program = ["python", f"{PROGRAMS}/{'pi' if launcher.mpi else 'rank'}.py"]
        command = launcher.command(ranks, workers, stage.job.folders.hostfile, program)
        _say("")
        _say(f"$ {' '.join(command)}".replace(f"{PROGRAMS}/", ""))
        code = stage.launch(ranks, program)
        stage.stop()
        left = stage.job.leftovers()
        sessions = _sessions(stage.job.hub_lines())
    _say("")
    _table(stage, time.monotonic() - began)
    _say("")
    _agents(sessions)
    if left:
        _say(f"processes that were left in workers: {left}")
    else:
        _say("No process was left in any worker.")
    return code


def _way(number: int) -> Steps:
    """How a worker becomes ready: not all at once, so that delivery has something to wait for."""
    return ((0.0, "scheduled"), (0.2, "pulling"), (0.5 + 0.3 * number, "ready"))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _table(stage: Stage, total_s: float) -> None:
    rows = [*stage.steps, ("in all", total_s)]
    width = max(len(name) for name, _seconds in rows)
    _say(f"{'step':<{width}}  seconds")
    for name, seconds in rows:
        _say(f"{name:<{width}}  {seconds:7.2f}")


def _sessions(lines: list[str]) -> list[Session]:
    return [Session(*match.groups()) for line in lines if (match := _SESSION.search(line))]


def _agents(sessions: list[Session]) -> None:
    """What the hub's log says of the agents, by worker."""
    width = max((len(one.host) for one in sessions), default=0)
    _say("What the launcher called, as the hub's log has it:")
    for one in sorted(sessions, key=lambda session: session.host):
        # Open MPI 5 kills the agents that are left when all daemons have ended.
        ended = "" if one.result in {"ok", "signalled"} else f", {one.result}: exit {one.exit_code}"
        _say(f"  agent to {one.host:<{width}}  started in {one.start_s} s, held {one.seconds} s{ended}")
