"""The command `sshd-bootstrap`: prepares ssh in a pod by its environment, and says in one line why it can't."""

from __future__ import annotations

import os
import sys
import time

from agents.common import termination
from sshd_bootstrap.exits import PREPARED, USAGE, BootstrapError
from sshd_bootstrap.prepare import let_start, prepare
from sshd_bootstrap.settings import Settings

AGENT_S = 10.0
_AGENT_STEP_S = 0.02


def main() -> None:
    """Run as a command, and end the process. Pods give no argument, and so don't wait for click."""
    sys.exit(run() if len(sys.argv) == 1 else _with_arguments())


def run() -> int:
    """Prepare, and return the exit code."""
    try:
        settings = Settings.load(os.environ)
        _prepare(settings)
    except BootstrapError as error:
        sys.stderr.write(f"sshd-bootstrap: {error.message}\n")
        termination.leave(error.message, os.environ)
        return error.exit_code
    if settings.agent_port is not None:
        _wait_for_agent(settings.agent_port)
    return PREPARED


def _wait_for_agent(port: int) -> None:
    """Wait until the worker agent, whose hook this is, listens: the kubelet probes no container before its hook's end.

    After 10 s the hook ends anyway: the agent's log says what is wrong with it.
    """
    import socket  # noqa: PLC0415 (of no use to those who have no agent)

    end = time.monotonic() + AGENT_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), AGENT_S).close()
        except OSError:
            time.sleep(_AGENT_STEP_S)
        else:
            return


def _prepare(settings: Settings) -> None:
    """Prepare; in a launcher that waits at delivery's start gate, leave a failure to delivery.

    If a hook fails, the kubelet restarts its container endlessly. Delivery ends the launcher's own container instead,
    so that the restart policy applies, and tries again if that is restarted.
    """
    try:
        prepare(settings)
    except BootstrapError:
        if not settings.waits_inside:
            raise
        let_start(settings)


def _with_arguments() -> int:
    try:
        import click  # noqa: PLC0415 (a third of the start)
    except ModuleNotFoundError as error:
        sys.exit(f"sshd-bootstrap: {error}: install mpi-agents[delivery]")

    @click.command(epilog="All variables and every exit code: docs/ssh.md.")
    @click.version_option(package_name="mpi-agents", prog_name="sshd-bootstrap")
    def command() -> int:
        """Set up ssh and sshd in a pod of an MPI job: write the job's keys to the volume (variables MPI_SSH_*)."""
        return run()

    try:
        code: int = command.main(prog_name="sshd-bootstrap", standalone_mode=False)
    except click.ClickException as error:
        sys.stderr.write(f"sshd-bootstrap: {error.format_message()} (see sshd-bootstrap --help)\n")
        return USAGE
    return code
