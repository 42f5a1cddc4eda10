"""The command `sshd-bootstrap`: prepares ssh in a pod by its environment, and says in one line why it can't."""

from __future__ import annotations

import os
import sys

from sshd_bootstrap import lastwords
from sshd_bootstrap.exits import PREPARED, USAGE, BootstrapError
from sshd_bootstrap.prepare import let_start, prepare
from sshd_bootstrap.settings import Settings


def main() -> None:
    """Run as a command, and end the process. Pods give no argument, and so don't wait for click."""
    sys.exit(run() if len(sys.argv) == 1 else _with_arguments())


def run() -> int:
    """Prepare, and return the exit code."""
    try:
        _prepare(Settings.load(os.environ))
    except BootstrapError as error:
        sys.stderr.write(f"sshd-bootstrap: {error.message}\n")
        lastwords.leave(error.message, os.environ.get("MPI_AGENT_TERMINATION_LOG") or lastwords.DEFAULT)
        return error.exit_code
    return PREPARED


def _prepare(settings: Settings) -> None:
    """Prepare; or let delivery, beside us in a launcher that waits for it, find out that it can't be done.

    A hook that fails has its container started again for ever. Delivery ends the launcher's own, which its policy then
    judges, and tries again for one that is started again.
    """
    try:
        prepare(settings)
    except BootstrapError:
        if not settings.waits_inside:
            raise
        let_start(settings)


def _with_arguments() -> int:
    import click  # noqa: PLC0415 (a third of the start)

    @click.command(epilog="All variables and every exit code: docs/ssh.md.")
    @click.version_option(package_name="mpi-agents", prog_name="sshd-bootstrap")
    def command() -> int:
        """Prepare ssh and sshd in a pod of an MPI job: the job's Secret, by the variables MPI_SSH_*, to its volume."""
        return run()

    try:
        code: int = command.main(prog_name="sshd-bootstrap", standalone_mode=False)
    except click.ClickException as error:
        sys.stderr.write(f"sshd-bootstrap: {error.format_message()} (sshd-bootstrap --help tells more)\n")
        return USAGE
    return code
