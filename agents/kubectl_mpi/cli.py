"""`kubectl mpi`: the commands that look at jobs, wait for them, create and delete them. Exit codes: `options`."""

from __future__ import annotations

import contextlib
import os
import sys
import time

import click

from agents.client import ClientError, JobStatus, MpiClient, NotFoundError, State
from agents.client.model import as_json
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.options import (
    FAILED,
    INTERRUPTED,
    USAGE,
    cluster_options,
    duration,
    exit_code,
    is_live,
    note,
    output_option,
    show,
    show_as,
    style,
)
from rshagent import __version__

_LOOK_S = 2.0  # how often `status -w` looks
_CLEAR = "\x1b[H\x1b[J"


def main() -> None:
    """Run as a command, and end the process."""
    try:
        code = command.main(prog_name=_name(), standalone_mode=False)
        sys.stdout.flush()
    except ClientError as error:
        note(f"error: {error}")
        code = exit_code(error)
    except click.ClickException as error:
        note(f"error: {error.format_message()} (`{_name()} --help` lists commands and options)")
        code = USAGE
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    sys.exit(code)


def _name() -> str:
    """How the command was called: kubectl runs a plugin by its file."""
    return "kubectl mpi" if os.path.basename(sys.argv[0]) == "kubectl-mpi" else "kubectl-mpi"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kubectl-mpi %(version)s")
def command() -> None:
    """Run, watch and understand MPI jobs: those of mpi-agents and of kubeflow's operators."""


@command.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@output_option("wide", "json", "yaml", "name")
@cluster_options
def list_jobs(client: MpiClient, *, all_namespaces: bool, output: str | None) -> None:
    """List jobs: state, reason, ready workers, age, slots, queue."""
    found = client.list(all_namespaces=all_namespaces)
    if output == "name":
        show([job.resource for job in found])
    elif output in {"json", "yaml"}:
        show_as(as_json(found), output)
    elif not found:
        note("No MPI jobs." if all_namespaces else f"No MPI jobs in namespace {client.namespace}.")
    else:
        is_wide = output == "wide"
        show(tables.jobs(found, time.time(), has_namespace=all_namespaces, is_wide=is_wide, style=style))


@command.command()
@click.argument("job")
@click.option("-w", "--watch", is_flag=True, help="Go on until the job has ended.")
@output_option("wide", "json", "yaml")
@cluster_options
def status(client: MpiClient, *, job: str, watch: bool, output: str | None) -> None:
    """Show a job on one screen: state, pods, timeline."""
    if output in {"json", "yaml"}:
        show_as(as_json(client.get(job)), output)
    elif watch:
        _watch(client, job, is_wide=output == "wide")
    else:
        show(tables.screen(client.get(job), time.time(), is_wide=output == "wide", style=style))


def _watch(client: MpiClient, job: str, *, is_wide: bool) -> None:
    """On a terminal redraw the screen; in a pipe print a line for each change."""
    before = ""
    while True:
        found = client.get(job)
        if is_live():
            show([_CLEAR + "\n".join(tables.screen(found, time.time(), is_wide=is_wide, style=style))])
        elif (line := f"{found.state} {found.summary.ready}/{found.summary.workers} {found.summary.reason}") != before:
            before = line
            show([f"{time.strftime('%H:%M:%S')} {found.state}: {found.explanation.what}"])
        if found.state.has_ended:
            return
        time.sleep(_LOOK_S)


@command.command()
@click.argument("job")
@output_option("json", "yaml")
@cluster_options
def why(client: MpiClient, *, job: str, output: str | None) -> None:
    """Say what a job waits for or what it died of, and what to do."""
    found = client.why(job)
    if output is not None:
        show_as(as_json(found), output)
        return
    show([str(found)])
    if found.lines:
        show([f"Last lines of {found.output_of}:", *(f"  | {line}" for line in found.lines)])


@command.command()
@click.argument("job")
@click.option("--worker", type=click.IntRange(min=0), metavar="N", help="A worker's output instead of the launcher's.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the container ends.")
@click.option("--previous", is_flag=True, help="Of the container before its last restart.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Only so many last lines.")
@cluster_options
def logs(client: MpiClient, *, job: str, worker: int | None, follow: bool, previous: bool, tail: int | None) -> None:
    """Print the output of a job's launcher, or of a worker."""
    for line in client.logs(job, worker=worker, follow=follow, previous=previous, tail=tail):
        show([line])


@command.command()
@click.argument("job")
@output_option("json", "yaml")
@cluster_options
def events(client: MpiClient, *, job: str, output: str | None) -> None:
    """List the events of a job and its pods, oldest first."""
    found = client.events(job)
    if output is not None:
        show_as(as_json(found), output)
    elif not found:
        note(f"No events of {job}: Kubernetes keeps them for an hour by default.")
    else:
        show(tables.events(found, time.time(), style))


_UNTIL = {
    "ended": lambda status: status.state.has_ended,
    "running": lambda status: status.state is State.RUNNING or status.state.has_ended,
}


@command.command()
@click.argument("job")
@click.option("--for", "until", type=click.Choice(list(_UNTIL)), default="ended", show_default=True)
@click.option(
    "--timeout", callback=duration, metavar="TIME", help="Give up after so long, as 90s or 10m; default: never."
)
@cluster_options
def wait(client: MpiClient, *, job: str, until: str, timeout: float | None) -> None:
    """Wait until a job has ended. Exit code 0: it succeeded, 1: it failed, 124: not within the time limit."""
    found: JobStatus = client.wait(job, timeout_s=timeout, until=_UNTIL[until])
    show([str(found.explanation)])
    if found.state is State.FAILED:
        sys.exit(FAILED)


@command.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--ignore-not-found", is_flag=True, help="A job that is not there is no error.")
@cluster_options
def delete(client: MpiClient, *, jobs: tuple[str, ...], ignore_not_found: bool) -> None:
    """Delete jobs with all that belongs to them."""
    for job in jobs:
        try:
            show([f"{client.delete(job).resource} deleted"])
        except NotFoundError:
            if not ignore_not_found:
                raise
