"""`mpi-playground`: the command line.

Exit codes: the launcher's own; 1 can't be set up, 2 usage, or (render) a job that can't be run, 130 Ctrl-C, 143 TERM.
"""

from __future__ import annotations

import signal
import sys
import tempfile

import click

from . import apply as apply_
from . import demo as demo_
from . import render as render_
from . import run as run_
from . import serve as serve_
from .client import ClientError
from .cluster import ClusterError
from .documents import DocumentError
from .image import ImageError
from .job import JobError
from .launchers import LAUNCHERS
from .stage import Terminated
from .wheels import InstallError

_NAMES = click.Choice(list(LAUNCHERS))
_COUNT = click.IntRange(min=1, max=1000)


def main() -> None:
    """Run as a command, and end the process."""
    try:
        sys.exit(command.main(prog_name="mpi-playground", standalone_mode=False))
    except click.Abort:  # click makes it of KeyboardInterrupt
        sys.exit(128 + signal.SIGINT)
    except Terminated:
        sys.exit(128 + signal.SIGTERM)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (InstallError, ImageError, ClusterError, ClientError, DocumentError, JobError) as error:
        sys.stderr.write(f"mpi-playground: {error}\n")
        sys.exit(1)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Try the agents without a cluster: a stand-in API server whose pods are local processes."""


@command.command()
@click.option("--launcher", type=_NAMES, default="openmpi4", show_default=True)
@click.option("--workers", type=_COUNT, default=4, show_default=True, help="Worker pods.")
@click.option("--ranks-per-worker", type=_COUNT, default=1, show_default=True)
def demo(launcher: str, workers: int, ranks_per_worker: int) -> int:
    """Watch a kubeflow MPIJob: the operator makes its pods, mpirun starts ranks that compute pi, it succeeds."""
    return demo_.demo(LAUNCHERS[launcher], workers=workers, ranks_per_worker=ranks_per_worker)


@command.command(context_settings={"ignore_unknown_options": True})
@click.option("--launcher", type=_NAMES, default="openmpi5", show_default=True)
@click.option("--workers", type=_COUNT, default=2, show_default=True, help="Worker pods.")
@click.option("-n", "ranks", type=_COUNT, help="Ranks. Default: one for each worker.")
@click.option("--slots", type=_COUNT, help="Slots of each worker. Default: as many as the ranks need.")
@click.option("--folder", type=click.Path(file_okay=False), help="Keep the cluster's files (logs) there.")
@click.option("-v", "--verbose", is_flag=True, help="Show the hub's log at the end.")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    launcher: str,
    workers: int,
    ranks: int | None,
    slots: int | None,
    folder: str | None,
    verbose: bool,  # noqa: FBT001
    program: tuple[str, ...],
) -> int:
    """Run PROGRAM under a real launcher: run --launcher mpich --workers 8 -n 16 -- python my.py."""
    return run_.run(
        LAUNCHERS[launcher],
        program,
        workers=workers,
        ranks=ranks or workers,
        slots=slots,
        folder=folder,
        verbose=verbose,
    )


@command.command()
@click.option("--launcher", type=_NAMES, help="What MPI the pods have. Default: by the job, openmpi4, mpich or impi.")
@click.option("--folder", type=click.Path(file_okay=False), help="Keep the cluster's files (logs) there.")
@click.option("-v", "--verbose", is_flag=True, help="Show the operator's log at the end.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
def apply(
    launcher: str | None,
    folder: str | None,
    verbose: bool,  # noqa: FBT001
    files: tuple[str, ...],
) -> int:
    """Run the MPIJobs of YAML files under the operator, whatever images they name: apply examples/kubeflow/pi.yaml."""
    return apply_.apply(LAUNCHERS[launcher] if launcher else None, files, folder=folder, verbose=verbose)


@command.command()
@click.option("-n", "--namespace", default="default", show_default=True, help="Of jobs that name none.")
@click.option("--gang-scheduler", default="", help="volcano, t9k, or a scheduler with scheduler-plugins' coscheduling.")
@click.option("--resumed", is_flag=True, help="Show what pods run after a pause.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
def render(
    namespace: str,
    gang_scheduler: str,
    resumed: bool,  # noqa: FBT001
    files: tuple[str, ...],
) -> int:
    """Print the objects that the operator would make for the MPIJobs of YAML files: no cluster is needed, or asked."""
    try:
        text = render_.render(files, namespace=namespace, gang_scheduler=gang_scheduler, is_resumed=resumed)
    except render_.RenderError as error:
        sys.stderr.write("".join(f"mpi-playground: {line}\n" for line in error.lines))
        return 2
    sys.stdout.write(text)
    return 0


@command.command()
@click.option("--launcher", type=_NAMES, default="openmpi4", show_default=True, help="What MPI the pods have.")
@click.option("--folder", type=click.Path(file_okay=False), help="Where its files go. Default: a temporary folder.")
def up(launcher: str, folder: str | None) -> int:
    """Start a stand-in cluster with the operator, for kubectl and one's own MPIJobs, until Ctrl-C."""
    return apply_.up(LAUNCHERS[launcher], folder)


@command.command()
@click.option("--workers", type=_COUNT, default=2, show_default=True, help="Worker pods.")
@click.option("--folder", type=click.Path(file_okay=False), help="Where its files go. Default: a temporary folder.")
def serve(workers: int, folder: str | None) -> int:
    """Start a stand-in cluster for kubectl, with a few worker pods, until Ctrl-C."""
    if folder is not None:
        return serve_.serve(folder, workers=workers)
    with tempfile.TemporaryDirectory(prefix="mpi-playground-") as temporary:
        return serve_.serve(temporary, workers=workers)
