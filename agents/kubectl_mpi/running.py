"""`run` and `attach`: a job in the foreground. They end with the launcher's exit code."""

from __future__ import annotations

import contextlib
import secrets as random
import string
import sys
from collections.abc import Callable
from typing import Any

import click

from agents.client import MpiClient, NotFoundError, State, manifests, sync
from agents.client.manifests import Options
from agents.job.model import Dialect, Transport
from agents.kubectl_mpi.local import PODS, PODS_HELP, PROCESSES, run_job
from agents.kubectl_mpi.options import (
    FAILED,
    INTERRUPTED,
    MPI,
    ProgramCommand,
    another,
    chosen,
    cluster_options,
    connection_options,
    duration,
    note,
    show,
    show_as,
)

_NUMBER = click.IntRange(min=1)
_SUFFIX = 5  # characters: letters and digits
_Callback = Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]


def _pairs(separator: str, *, is_swapped: bool = False) -> _Callback:
    """Return a callback for options given as FIRST, separator, SECOND. `is_swapped`: the second is the key, a path."""

    def split(_context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in given:
            first, has_separator, second = one.partition(separator)
            if not (first and has_separator) or (is_swapped and not second.startswith("/")):
                raise click.BadParameter(f"must be {parameter.metavar}, not {one!r}")
            found |= {second: first} if is_swapped else {first: second}
        return found

    return split


@click.command(cls=ProgramCommand)
@click.argument("image")
@click.argument("command", nargs=-1, required=True)
@click.option("-n", "-np", "--ranks", type=_NUMBER, required=True, metavar="N", help="How many ranks.")
@click.option("--name", default="", help="The job's name; default: the program's, and a random suffix.")
@click.option("--workers", type=_NUMBER, metavar="N", help="Worker pods; default: as many as the ranks need.")
@click.option("--slots", type=_NUMBER, metavar="N", help="Ranks per worker; default: one, or one per GPU.")
@click.option("--gpus", type=_NUMBER, metavar="N", help="GPUs of each worker (nvidia.com/gpu).")
@click.option("--cpu", default="", metavar="CPUS", help="CPUs of each worker, as 4 or 500m.")
@click.option("--memory", default="", metavar="SIZE", help="Memory of each worker, as 8Gi.")
@click.option("--shm", default="", metavar="SIZE", help="Shared memory of each worker; default: the runtime's 64 MiB.")
@click.option("--env", multiple=True, callback=_pairs("="), metavar="NAME=VALUE", help="A variable of all pods.")
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    callback=_pairs(":", is_swapped=True),
    metavar="CLAIM:/PATH",
    help="Mount a PersistentVolumeClaim.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    callback=_pairs(":", is_swapped=True),
    metavar="SECRET:/PATH",
    help="Mount a Secret.",
)
@click.option("--queue", default="", metavar="NAME", help="Kueue's LocalQueue.")
@click.option("--priority", default="", metavar="NAME", help="PriorityClass of the pods.")
@click.option("--time", "time_s", callback=duration, metavar="TIME", help="Time limit, as 30m or 4h.")
@click.option("--transport", **chosen({str(one): one for one in Transport}), help="Default: exec.")
@click.option("--mpi", "implementation", **chosen(MPI), help="The image's MPI; default: openmpi.")
@click.option("--no-tag-output", "tags_output", flag_value=False, default=None, help="Lines of output without ranks.")
@click.option("-f", "--file", default="", metavar="FILE", help="An MPIJob with defaults for all options.")
@click.option("--sync", "folder", metavar="DIR", help="Give all pods the files of a folder, to start in.")
@click.option("--rm", "removes", is_flag=True, help="Delete the job when it has ended, and on Ctrl-C.")
@click.option("--detach", is_flag=True, help="Print the job's name, and don't wait for it.")
@click.option("--local", "is_local", is_flag=True, help="Run it without a cluster, on this machine.")
@click.option("--pods", type=PODS, default=PROCESSES, show_default=True, help=f"With --local. {PODS_HELP}")
@click.option("--dry-run", is_flag=True, help="Print the job, and create nothing.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format of --dry-run.")
@connection_options("--namespace")
def run(  # noqa: PLR0913 - options
    *,
    command: tuple[str, ...],
    name: str,
    time_s: float | None,
    file: str,
    folder: str | None,
    removes: bool,
    detach: bool,
    is_local: bool,
    pods: str,
    dry_run: bool,
    output: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    **given: Any,
) -> None:
    """Run a program in new pods: submit a job, print its output, end with its exit code.

    COMMAND is the program, which mpirun starts in each rank, or an mpirun line of your own. The first Ctrl-C detaches.
    """
    suffix = "".join(random.choice(string.ascii_lowercase + string.digits) for _ in range(_SUFFIX))
    options = Options(
        name=name or manifests.name_of(command[0], suffix),
        command=command,
        time_s=None if time_s is None else int(time_s),
        template=manifests.read(file)[0] if file else None,
        **given,
    )
    if is_local and (detach or context or kubeconfig):
        raise click.UsageError("--local can't be combined with --detach, --context or --kubeconfig")
    if dry_run or is_local:
        manifest = manifests.new_job(options)
        if namespace:
            manifest["metadata"]["namespace"] = namespace
        if not dry_run:
            run_job(manifest, pods, folder)
        if folder is not None:
            note(f"without --dry-run the ConfigMap has {len(sync.packed(folder)) // 1000} kB of files of {folder}")
            manifest = sync.mounted(manifest)
        show_as(manifest, output)
        return
    with MpiClient(namespace=namespace, context=context, kubeconfig=kubeconfig) as client:
        version = Dialect.V1 if str(Dialect.V1) in client.versions() else Dialect.V2BETA1
        made = client.submit(manifests.new_job(options, version), folder=folder)
        if detach:
            show([f"{made.resource} created"])
            return
        note(f"{made.resource} created")
        _follow(client, made.name, removes=removes)


@click.command()
@click.argument("job")
@cluster_options
def attach(client: MpiClient, *, job: str) -> None:
    """Print a job's output from start to end, and exit with its exit code. Ctrl-C detaches."""
    _follow(client, job, removes=False)


def _follow(client: MpiClient, job: str, *, removes: bool) -> None:
    """Follow a job, and end the process as its launcher ended."""
    try:
        status = client.follow(job, report=lambda line: note(f"[{job}] {line}"), output=lambda line: show([line]))
    except KeyboardInterrupt:
        if removes:
            note(f"\n[{job}] {client.delete(job).resource} deleted")
        else:
            note(
                f"\n[{job}] detached; the job keeps running: `{another('attach', job)}`, or `{another('delete', job)}`"
            )
        sys.exit(INTERRUPTED)
    if status.state is State.FAILED:
        note(f"[{job}] {client.why(job)}")
    if removes:
        with contextlib.suppress(NotFoundError):  # ttlSecondsAfterFinished was faster
            client.delete(job)
    sys.exit(status.exit_code or FAILED if status.state is State.FAILED else 0)
