"""`kubectl mpi`: the command line. Exit codes: `options`."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import click

from agents.client import ClientError
from agents.kubectl_mpi import (
    bundling,
    changing,
    cluster,
    converting,
    doctor,
    executing,
    local,
    processes,
    reading,
    running,
)
from agents.kubectl_mpi.group import Commands
from agents.kubectl_mpi.options import FAILED, INTERRUPTED, USAGE, exit_code, note, program
from rshagent import __version__

_COMPLETE = "_KUBECTL_MPI_COMPLETE"  # click's variable: bash_source, zsh_source or fish_source

_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())  # no command was given; click 8.1 prints its help itself


def main() -> None:
    """Run as a command, and end the process."""
    warnings.filterwarnings("ignore", message="Unverified HTTPS request")  # the kubeconfig asks for it
    name = "kubectl-mpi" if _COMPLETE in os.environ else program()  # a shell completes the file's name
    try:
        code = command.main(prog_name=name, complete_var=_COMPLETE, standalone_mode=False)
        sys.stdout.flush()
    except ClientError as error:
        note(f"error: {error}")
        code = exit_code(error)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else name
        if isinstance(error, _HELP):
            note(error.format_message())
        else:
            note(f"error: {error.format_message()} (`{path} --help` lists commands and options)")
        code = USAGE
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    sys.exit(code)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kubectl-mpi %(version)s")
def command() -> None:
    """Run, watch and understand MPI jobs: those of mpi-agents and of kubeflow's operators."""


for one in (
    *(running.run, changing.submit, changing.rerun, running.attach, changing.wait, changing.delete),
    *(changing.pause, changing.resume, changing.debug, converting.convert, local.local),
    *(reading.list_jobs, reading.status, reading.why, reading.logs, reading.events, executing.exec_in),
    executing.cp,
    *(bundling.bundle, doctor.doctor, processes.top, processes.stacks, cluster.cluster),
):
    command.add_command(one)
