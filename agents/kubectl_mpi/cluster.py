"""`cluster …`: virtual clusters, which stay up for many jobs (docs/virtual-clusters.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from agents.client import MpiClient, prun
from agents.client.clusters import ClusterStatus, ClusterSummary
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.executing import call_kubectl, enter, kubectl_options
from agents.kubectl_mpi.group import Commands
from agents.kubectl_mpi.options import (
    INTERRUPTED,
    ProgramCommand,
    cluster_options,
    connection_options,
    note,
    output_option,
    show,
    show_as,
    stdout,
)


@click.group(cls=Commands)
def cluster() -> None:
    """Virtual clusters: nodes that stay up, to log in and run many jobs."""


@cluster.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@output_option("json", "yaml")
@cluster_options
def list_clusters(client: MpiClient, *, all_namespaces: bool, output: str | None) -> None:
    """List virtual clusters: state, ready nodes, slots, DVM."""
    found = client.clusters.list(all_namespaces=all_namespaces)
    if output is not None:
        show_as(found, output)
    elif found:
        show(rows(found, time.time(), has_namespace=all_namespaces))
    else:
        note("No virtual clusters." if all_namespaces else f"No virtual clusters in namespace {client.namespace}.")


@cluster.command()
@click.argument("name")
@output_option("wide", "json", "yaml")
@cluster_options
def status(client: MpiClient, *, name: str, output: str | None) -> None:
    """Show a virtual cluster on one screen: state, login pod, nodes."""
    found = client.clusters.get(name)
    if output in {"json", "yaml"}:
        show_as(found, output)
    else:
        show(screen(found, is_wide=output == "wide"))


@cluster.command(cls=ProgramCommand)
@click.argument("name")
@click.argument("command", nargs=-1, metavar="[COMMAND...]")
@connection_options("-n", "--namespace")
def login(*, name: str, command: tuple[str, ...], **access: str | None) -> None:
    """Open a shell in the login pod, or run a command there; end with its exit code."""
    with MpiClient(**access) as client:
        enter(client.namespace, client.clusters.login(name), access, command)


@cluster.command("prun", cls=ProgramCommand)
@click.argument("name")
@click.option("-n", "-np", "--ranks", type=click.IntRange(min=1), required=True, metavar="N", help="How many ranks.")
@click.argument("program", nargs=-1, required=True)
@connection_options("--namespace")
def run_program(*, name: str, ranks: int, program: tuple[str, ...], **access: str | None) -> None:
    """Run a program in the DVM; end with its exit code. Ctrl-C ends it.

    PROGRAM may begin with options of prun: `-- --map-by ppr:2:node solve case.in`.
    """
    mark = prun.new_mark()
    with MpiClient(**access) as client:
        options = kubectl_options(client.namespace, pod := client.clusters.login(name, needs_dvm=True), access)
        try:
            code = call_kubectl("exec", "-i", *options, pod.name, "--", *prun.command(mark, ranks, program))
        except KeyboardInterrupt:
            for line in client.clusters.end(name, mark):
                note(line)
            code = INTERRUPTED
    sys.exit(code)


@cluster.command()
@click.argument("name")
@cluster_options
def delete(client: MpiClient, *, name: str) -> None:
    """Delete a virtual cluster, and the jobs that run in it."""
    client.clusters.delete(name)
    show([f"virtualcluster.mpi-agents.io/{name} deleted"])


def rows(found: Sequence[ClusterSummary], now: float, *, has_namespace: bool) -> list[str]:
    """Return the table of `cluster list`."""
    titles = [*(["NAMESPACE"] if has_namespace else []), "NAME", "STATE", "NODES", "SLOTS", "DVM", "LOGIN", "AGE"]
    cells = [
        [
            *([one.namespace] if has_namespace else []),
            one.name,
            _state(one),
            one.nodes,
            str(one.slots),
            _dvm(one),
            one.login or "-",
            tables.age(now - one.created) if one.created is not None else "-",
        ]
        for one in found
    ]
    return tables.table(titles, cells, [_colour(one) for one in found], stdout())


def screen(found: ClusterStatus, *, is_wide: bool) -> list[str]:
    """Return the screen of `cluster status`."""
    summary = found.summary
    transport = f", transport {summary.transport}" if summary.transport else ""
    on = stdout()
    return [
        f"{summary.namespace}/{summary.name}: {on.style(_state(summary), _colour(summary))}",
        *on.wrapped(summary.message),
        "",
        f"{summary.nodes} nodes ready, {summary.slots} slots, DVM: {_dvm(summary)}{transport}",
        "",
        *tables.pods(found.login, found.nodes, is_wide=is_wide, on=on),
    ]


def _state(one: ClusterSummary) -> str:
    return "Ready" if one.ready else one.reason


def _colour(one: ClusterSummary) -> str:
    return "green" if one.ready else "yellow"


def _dvm(one: ClusterSummary) -> str:
    if not one.has_dvm:
        return "-"
    return "not running" if one.dvm_nodes is None else f"{one.dvm_nodes} nodes"
