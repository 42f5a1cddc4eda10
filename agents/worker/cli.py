"""`mpi-worker`: set up, run, shut down. Exit codes: 0 ended by a signal, 2 wrong settings or usage, 3 can't serve."""

from __future__ import annotations

import os
import sys

from agents.common.text import printable
from agents.worker import settings as worker_settings
from agents.worker.agent import Agent, ServeError
from agents.worker.settings import SettingsError

USAGE, CANNOT_SERVE = 2, 3

_HELP = """\
usage: mpi-worker

Monitors sshd and the processes of its pod. Configured by environment variables only:
docs/worker.md lists them, the log lines and the exit codes.
"""


def main() -> int:
    """Run as a command."""
    arguments = sys.argv[1:]
    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(_HELP)
        return 0
    if arguments:
        return _failed(f"{arguments[0]!a} is unknown: mpi-worker takes no arguments (mpi-worker --help)", USAGE)
    try:
        agent = Agent(worker_settings.read(os.environ), os.environ)
    except SettingsError as error:
        return _failed(str(error), USAGE)
    except ServeError as error:
        return _failed(str(error), CANNOT_SERVE)
    agent.run()
    return 0


def _failed(line: str, code: int) -> int:
    sys.stderr.write(f"mpi-worker: {printable(line)}\n")
    return code
