"""The commands that create, change and delete jobs, and wait for them: submit, rerun, pause, debug, wait, delete."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from agents.client import JobStatus, MpiClient, NotFoundError, State, edits, manifests
from agents.job.json_object import part
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.options import (
    FAILED,
    another,
    cluster_options,
    connection_options,
    duration,
    note,
    show,
    stdout,
)


@click.command()
@click.option("-f", "--file", required=True, metavar="FILE", help="YAML or JSON with MPIJobs; - is stdin.")
@connection_options("-n", "--namespace")
def submit(*, file: str, **access: str | None) -> None:
    """Create the jobs of a file, each in its own namespace if it has one; none if one of them is invalid."""
    found = manifests.read(file)
    with MpiClient(**access) as client:
        jobs = []
        for one in found:
            own = "" if access["namespace"] else str(part(one, "metadata").get("namespace") or "")
            jobs.append((client.within(own or client.namespace), one))
        for there, manifest in [(there, there.checked(one)) for there, one in jobs]:
            for typo in manifests.ignored(manifest):
                note(f"warning: {typo}")
            show([f"{there.submit(manifest).resource} created"])


@click.command()
@click.argument("job")
@click.option("--name", help="The new job's name; default: pi-2 after pi.")
@cluster_options
def rerun(client: MpiClient, *, job: str, name: str | None) -> None:
    """Create a new job with the spec of one that has ended."""
    resource = client.resource(job)
    if not client.get(job).state.has_ended:
        raise click.UsageError(f"{job} has not ended: wait for it, or delete it")
    if int(part(resource, "metadata").get("generation") or 1) > 1:
        note(f"the spec of {job} was edited after its creation; the current spec is used:")
        for line in tables.edits(edits.edits(resource), time.time()):
            note(f"  {line}")
    made = client.submit(manifests.again(resource, name or manifests.next_name(job, client.names())))
    show([f"{made.resource} created"])


@click.command()
@click.argument("job")
@cluster_options
def pause(client: MpiClient, *, job: str) -> None:
    """Delete a job's pods, the launcher first, so that ranks can save; keep the job until it is resumed."""
    show([f"{client.pause(job).resource} paused"])


@click.command()
@click.argument("job")
@cluster_options
def resume(client: MpiClient, *, job: str) -> None:
    """Create the pods of a paused job again."""
    show([f"{client.pause(job, is_on=False).resource} resumed"])


@click.command()
@click.argument("job")
@click.argument("state", type=click.Choice(["on", "off"]))
@cluster_options
def debug(client: MpiClient, *, job: str, state: str) -> None:
    """Have a job's launcher wait for you, or run its program again. It holds for the next launcher."""
    show([f"{client.debug(job, is_on=state == 'on').resource} debug {state}"])
    if client.facts(job).launcher is not None:
        note(f"the current launcher is unchanged: `{another('pause', job)}` and resume replace it")


_UNTIL: dict[str, Callable[[JobStatus], bool]] = {
    "ended": lambda status: status.state.has_ended,
    "running": lambda status: status.state is State.RUNNING or status.state.has_ended,
}


@click.command()
@click.argument("job")
@click.option("--for", "until", type=click.Choice(list(_UNTIL)), default="ended", show_default=True)
@click.option(
    "--timeout", callback=duration, metavar="TIME", help="Give up after this time, such as 90s or 10m; default: never."
)
@cluster_options
def wait(client: MpiClient, *, job: str, until: str, timeout: float | None) -> None:
    """Wait until a job has ended. Exit code 0: it succeeded, 1: it failed, 124: not within the time limit."""
    told = ""

    def is_there(status: JobStatus) -> bool:
        nonlocal told
        is_over, now = _UNTIL[until](status), f"{status.state} {status.summary.reason}"
        if not is_over and now != told:
            note(f"[{job}] {status.explanation.what}")
            told = now
        return is_over

    found = client.wait(job, timeout_s=timeout, until=is_there)
    show(stdout().wrapped(str(found.explanation)))
    if found.state is State.FAILED:
        sys.exit(FAILED)


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--ignore-not-found", is_flag=True, help="Ignore jobs that do not exist.")
@cluster_options
def delete(client: MpiClient, *, jobs: tuple[str, ...], ignore_not_found: bool) -> None:
    """Delete jobs with all that belongs to them."""
    missing = None
    for job in jobs:
        try:
            show([f"{client.delete(job).resource} deleted"])
        except NotFoundError as error:
            if missing is not None:
                note(f"error: {missing}")
            missing = None if ignore_not_found else error
    if missing is not None:  # when the others are deleted, as by kubectl
        raise missing
