"""The commands that look at jobs: list, status, why, logs, events."""

from __future__ import annotations

import time

import click

from agents.client import JobStatus, MpiClient
from agents.client.outage import Outage
from agents.client.tags import RankOutput
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.live import Live
from agents.kubectl_mpi.options import (
    cluster_options,
    is_live,
    note,
    output_option,
    show,
    show_as,
    stdout,
)

_UNTAGGED = 20  # lines without a tag that may be the launcher's own
_LOOK_S = 2.0  # how often `status -w` looks


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@output_option("wide", "json", "yaml", "name")
@cluster_options
def list_jobs(client: MpiClient, *, all_namespaces: bool, output: str | None) -> None:
    """List jobs: state, reason, ready workers, age, ranks, queue."""
    found = client.list(all_namespaces=all_namespaces)
    if output == "name":
        show([job.resource for job in found])
    elif output in {"json", "yaml"}:
        show_as(found, output)
    elif not found:
        note("No MPI jobs." if all_namespaces else f"No MPI jobs in namespace {client.namespace}.")
    else:
        is_wide = output == "wide"
        show(tables.jobs(found, time.time(), has_namespace=all_namespaces, is_wide=is_wide, on=stdout()))


@click.command()
@click.argument("job")
@click.option("-w", "--watch", is_flag=True, help="Follow until the job has finished.")
@output_option("wide", "json", "yaml")
@cluster_options
def status(client: MpiClient, *, job: str, watch: bool, output: str | None) -> None:
    """Show a job on one screen: state, pods, timeline."""
    if watch and output not in {None, "wide"}:
        raise click.UsageError(f"-w can't be combined with -o {output}")
    if output in {"json", "yaml"}:
        show_as(client.get(job), output)
    elif watch:
        _watch(client, job, is_wide=output == "wide")
    else:
        show(_screen(client.get(job), is_wide=output == "wide"))


def _screen(found: JobStatus, *, is_wide: bool) -> list[str]:
    return tables.screen(found, time.time(), is_wide=is_wide, on=stdout())


def _watch(client: MpiClient, job: str, *, is_wide: bool) -> None:
    """On a terminal redraw the screen; in a pipe print a line for each change."""
    before, live, lines = "", Live(), list[str]()
    outage = Outage((lambda line: live.draw([*lines, "", line])) if is_live() else note)
    while True:
        found = outage.answer(lambda: client.get(job))
        if is_live():
            lines = _screen(found, is_wide=is_wide)
            live.draw(lines, is_last=found.state.has_ended)
        elif (line := f"{found.state} {found.summary.ready}/{found.summary.workers} {found.summary.reason}") != before:
            before = line
            show([f"{time.strftime('%H:%M:%S')} {found.state}: {found.explanation.what}"])
        if found.state.has_ended:
            return
        time.sleep(_LOOK_S)


@click.command()
@click.argument("job")
@output_option("json", "yaml")
@cluster_options
def why(client: MpiClient, *, job: str, output: str | None) -> None:
    """Explain what a job waits for or why it failed, and what to do."""
    found = client.why(job)
    if output is not None:
        show_as(found, output)
        return
    show(stdout().wrapped(str(found)))
    if found.lines:
        show([f"Last lines of {found.output_of}:", *(f"  | {line}" for line in found.lines)])


@click.command()
@click.argument("job")
@click.option("--worker", type=click.IntRange(min=0), metavar="N", help="A worker's output instead of the launcher's.")
@click.option("--rank", type=click.IntRange(min=0), metavar="R", help="Only what this rank wrote.")
@click.option("-f", "--follow", is_flag=True, help="Follow until the container exits.")
@click.option("--previous", is_flag=True, help="Of the container before its last restart.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Only so many last lines.")
@cluster_options
def logs(
    client: MpiClient,
    *,
    job: str,
    worker: int | None,
    rank: int | None,
    follow: bool,
    previous: bool,
    tail: int | None,
) -> None:
    """Print the output of a job's launcher, of a worker, or of a rank."""
    if rank is not None and (worker is not None or (follow and tail is not None)):
        raise click.UsageError(f"--rank can't be combined with {'--tail and -f' if worker is None else '--worker'}")
    if follow and worker is None and tail is None and not previous:  # from before its start, over lost connections
        _follow(client, job, None if rank is None else client.rank_output(job, rank))
        return
    number = 0
    for number, line in enumerate(  # noqa: B007 (it is needed after the loop)
        client.logs(job, worker=worker, rank=rank, follow=follow, previous=previous, tail=tail), 1
    ):
        show([line])
    if rank is not None and not number:
        note(f"no output of rank {rank}")


def _follow(client: MpiClient, job: str, only: RankOutput | None) -> None:
    """Print the launchers' output until the job has ended, or only a rank's part of it."""

    def write(line: str) -> None:
        show([line] if only is None else only.feed(line))
        if only is not None and not only.has_tags and only.untagged == _UNTAGGED:
            note(f"so far {only.remedy}")

    client.follow(job, report=note, output=write)
    if only is not None:
        show(only.end())


@click.command()
@click.argument("job")
@output_option("json", "yaml")
@cluster_options
def events(client: MpiClient, *, job: str, output: str | None) -> None:
    """List the events of a job, its launchers, and some workers that are not ready, oldest first."""
    found = client.events(job)
    if output is not None:
        show_as(found, output)
    elif not found:
        note(f"No events of {job}: Kubernetes keeps them for an hour by default.")
    else:
        show(tables.events(found, time.time(), stdout()))
