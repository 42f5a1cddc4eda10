"""The commands that look into a job's ranks: top, stacks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

import click

from agents.client import MpiClient, NotFoundError
from agents.client.outage import Outage
from agents.client.rank_looks import RankLooks, RankReport
from agents.client.ranks import STATES, Group, RankProcess, groups, ranges
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.live import Live
from agents.kubectl_mpi.options import (
    FAILED,
    Progress,
    cluster_options,
    is_live,
    note,
    output_option,
    show,
    show_as,
    stdout,
)

_LOOK_S = 2.0  # how often `top` looks
_FEW = 3  # ranks of a group, whose processes are named
_COLOURS = {"running": "green", "disk-sleep": "yellow", "stopped": "red", "tracing-stop": "red", "zombie": "red"}


@click.command()
@click.argument("job")
@output_option("json", "yaml")
@cluster_options
def top(client: MpiClient, *, job: str, output: str | None) -> None:
    """Show CPU, memory and state of each rank; on a terminal until the job's end or Ctrl-C."""
    looks = client.ranks(job)
    with Progress() as progress:
        found = looks.look(progress)
    if output is None and is_live():
        _watch(looks, found)
    else:
        _show(found, output, rows(found.ranks))


def _watch(looks: RankLooks, found: RankReport) -> None:
    outage, live = Outage(note), Live()
    while True:
        live.draw([*rows(found.ranks), *found.notes])
        time.sleep(_LOOK_S)
        try:
            found = outage.answer(looks.look)
        except NotFoundError as error:  # the job has ended
            note(str(error))
            return


@click.command()
@click.argument("job")
@click.option("--rank", type=click.IntRange(min=0), metavar="R", help="Of this rank only.")
@output_option("json", "yaml")
@cluster_options
def stacks(client: MpiClient, *, job: str, rank: int | None, output: str | None) -> None:
    """Show where ranks wait or hang; those that are at the same place in one group."""
    with Progress() as progress:
        found = client.ranks(job).stacks(rank, progress)
    _show(found, output, [line for group in groups(found.ranks) for line in group_lines(group)])


def _show(found: RankReport, output: str | None, lines: Sequence[str]) -> None:
    if output is not None:
        show_as(found, output)
    else:
        show(lines if found.ranks else ())
        for line in found.notes or (() if found.ranks else ("no worker has a rank",)):
            note(line)
    if not found.ranks and found.notes:
        sys.exit(FAILED)


def rows(ranks: Sequence[RankProcess]) -> list[str]:
    """Return the table of `top`."""
    cells = [
        [
            str(one.rank),
            one.pod,
            str(one.pid),
            STATES.get(one.state, one.state),
            "-" if one.cpu_percent is None else f"{one.cpu_percent:.0f}",
            _size(one.rss_bytes),
            one.program,
        ]
        for one in ranks
    ]
    colours = [_COLOURS.get(one.state, "") for one in ranks]
    return tables.table(
        ["RANK", "POD", "PID", "STATE", "CPU%", "MEMORY", "PROGRAM"], cells, colours, stdout()._replace(width=None)
    )


def group_lines(group: Group) -> Iterator[str]:
    """Return a group as text: a header, its Python stack, and of few ranks their processes."""
    many = len(group.ranks) > 1
    yield f"{'ranks' if many else 'rank'} {ranges(group.ranks)}: {group.where}"
    yield from (f"    {frame}" for frame in group.frames)
    if len(group.ranks) <= _FEW:
        yield from (f"  {one.pod}, process {one.pid}: {one.program}" for one in group.processes)


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB" if count < 1 << 30 else f"{count / (1 << 30):.1f} GiB"
