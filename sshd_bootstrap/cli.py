"""The command `sshd-bootstrap`: prepares ssh in a pod by its environment, and says in one line why it can't."""

from __future__ import annotations

import os
import sys

from sshd_bootstrap import paths
from sshd_bootstrap.exits import PREPARED, USAGE, BootstrapError
from sshd_bootstrap.prepare import prepare
from sshd_bootstrap.settings import Settings

_LAST_WORDS_MAX = 4096  # bytes that the kubelet reads of a termination log


def main() -> None:
    """Run as a command, and end the process. Pods give no argument, and so don't wait for click."""
    sys.exit(run() if len(sys.argv) == 1 else _with_arguments())


def run() -> int:
    """Prepare, and return the exit code."""
    try:
        prepare(Settings.load(os.environ))
    except BootstrapError as error:
        sys.stderr.write(f"sshd-bootstrap: {error.message}\n")
        leave(error.message, os.environ.get("MPI_AGENT_TERMINATION_LOG") or paths.TERMINATION_LOG)
        return error.exit_code
    return PREPARED


def leave(text: str, path: str) -> None:
    """Write `text` to an existing termination log, as a hook's own output is lost; nothing happens without one."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(fd, text.encode("utf-8", "replace")[:_LAST_WORDS_MAX])
    except OSError:
        pass
    finally:
        os.close(fd)


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
