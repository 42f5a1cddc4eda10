"""`mpi-worker`: set up, run, shut down. Exit codes: 0 ended by a signal, 2 wrong settings or usage, 3 can't serve.

`mpi-worker ranks` prints the ranks of its pod instead: the agent's container is where `kubectl mpi top` calls it.
"""

from __future__ import annotations

import os
import sys
import time

from agents.worker import report
from agents.worker import settings as worker_settings
from agents.worker.agent import Agent, ServeError, say
from agents.worker.settings import SettingsError

USAGE, CANNOT_SERVE = 2, 3

_HELP = """\
usage: mpi-worker [ranks]

Monitors sshd and the processes of its pod. Configured by environment variables only:
docs/worker.md lists them, the log lines and the exit codes.

ranks: print the ranks' processes and what they wait for as JSON, and exit.
"""


def main() -> int:
    """Run as a command."""
    arguments = sys.argv[1:]
    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(_HELP)
        return 0
    if arguments == ["ranks"]:
        return _ranks()
    if arguments:
        say(f"{arguments[0]!a} is unknown (mpi-worker --help)")
        return USAGE
    try:
        agent = Agent(worker_settings.read(os.environ), os.environ)
    except (SettingsError, ServeError) as error:
        say(str(error))
        return USAGE if isinstance(error, SettingsError) else CANNOT_SERVE
    agent.run()
    return 0


def _ranks() -> int:
    """Scan once. The running agent is not asked: an exec job's has no socket that only its pod can reach."""
    from agents.worker.process_view import Scan  # noqa: PLC0415 (psutil takes 2 MiB, which not every agent needs)
    from agents.worker.waits import waits  # noqa: PLC0415

    sys.stdout.write(report.rank_view(Scan().processes(time.time()), waits, time.monotonic()))
    return 0
