"""`mpi-playground`: the command line.

Exit codes: the launcher's own; 1 can't be set up, or stdout can't be written; 2 usage, or a wrong file or job; 130
Ctrl-C, 143 TERM.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from rshagent import __version__

from . import apply as apply_
from . import demo as demo_
from . import documents
from . import render as render_
from .cluster import ClusterError
from .documents import DocumentError
from .launchers import DEFAULT, LAUNCHERS, SetupError
from .runtime import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_NAMES = click.Choice(list(LAUNCHERS))
_COUNT = click.IntRange(min=1, max=1000)
_CONTAINERS = "containers"
_PODS = click.Choice(["processes", _CONTAINERS])
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_folder_option = click.option(
    "--folder", type=click.Path(file_okay=False), help="Keep the cluster's files and logs in this folder."
)
_verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show the logs of operator and hub at the end.")


def main() -> None:
    """Run as a command, and end the process."""
    for fd in (0, 1, 2):  # one that is closed would be given to the next file or socket
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the server has it too
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    signal.signal(signal.SIGTERM, _terminate)
    code = _run()
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _unwritten(error)
    sys.exit(code)


def _terminate(number: int, _frame: FrameType | None) -> None:
    """End, and leave nothing behind."""
    signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the cleanup
    sys.exit(128 + number)


def _run() -> int:
    try:
        return int(command.main(prog_name="mpi-playground", standalone_mode=False) or 0)
    except click.Abort:  # click makes it of KeyboardInterrupt
        return 128 + signal.SIGINT
    except click.ClickException as error:
        error.show()
    except DocumentError as error:
        sys.stderr.writelines(f"mpi-playground: {line}\n" for line in error.lines)
    except (SetupError, ClusterError, EngineError) as error:
        sys.stderr.write(f"mpi-playground: {error}\n")
        return 1
    except OSError as error:
        return _unwritten(error)
    return 2


def _unwritten(error: OSError) -> int:
    """Stdout can't be written: say so, and try no more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stderr.write(f"mpi-playground: {error}\n")
    return 1


def _with_files(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command its files, as arguments or as kubectl has them."""
    function = click.argument("files", metavar="FILE...", nargs=-1, type=_FILE)(function)
    return click.option("-f", "--filename", "more", metavar="FILE", multiple=True, type=_FILE, help='"-" is stdin.')(
        function
    )


def _read(files: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    return documents.read(files)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mpi-playground")
def command() -> None:
    """Try the agents without a cluster: a stand-in API server whose pods are local processes."""


@command.command()
@click.option("--launcher", type=_NAMES, default=DEFAULT, show_default=True)
@click.option("--workers", type=_COUNT, default=4, show_default=True, help="Worker pods.")
@click.option("--ranks-per-worker", type=_COUNT, default=1, show_default=True)
def demo(launcher: str, **sizes: int) -> int:
    """Watch a kubeflow MPIJob run: the operator creates its pods, and mpirun starts ranks that compute pi."""
    return demo_.demo(LAUNCHERS[launcher], **sizes)


@command.command(context_settings={"ignore_unknown_options": True})
@click.option("--launcher", type=_NAMES, default=DEFAULT, show_default=True)
@click.option("--workers", type=_COUNT, default=2, show_default=True, help="Worker pods.")
@click.option("-n", "-np", "ranks", type=_COUNT, help="Ranks. Default: one for each worker.")
@click.option("--slots", type=_COUNT, help="Slots of each worker. Default: as many as the ranks need.")
@_folder_option
@_verbose_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def run(launcher: str, workers: int, ranks: int | None, slots: int | None, program: tuple[str, ...], **how: Any) -> int:
    """Run PROGRAM as an MPIJob: run --launcher mpich --workers 8 -n 16 -- python my.py."""
    ranks = ranks or workers
    slots = slots or -(-ranks // workers)
    return apply_.run(LAUNCHERS[launcher], program, workers=workers, ranks=ranks, slots=slots, **how)


@command.command()
@click.option(
    "--launcher",
    type=_NAMES,
    help="The launcher to run the jobs with. Default: by the job's MPI, openmpi4, mpich or impi.",
)
@click.option("--pods", type=_PODS, default="processes", show_default=True, help="What pods are made of.")
@_folder_option
@_verbose_option
@_with_files
def apply(launcher: str | None, pods: str, files: tuple[str, ...], more: tuple[str, ...], **how: Any) -> int:
    """Run the MPIJobs of YAML files under the operator: apply examples/kubeflow/pi.yaml.

    Where pods are processes, their images are ignored.
    """
    found = _read((*files, *more))
    if launcher and pods == _CONTAINERS:
        raise click.UsageError("--launcher is for pods of processes: containers have their images' MPI")
    chosen = LAUNCHERS[launcher] if launcher else None
    return apply_.apply(found, chosen, has_containers=pods == _CONTAINERS, **how)


@command.command()
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of jobs that name none.")
@click.option("--gang-scheduler", default="", help="volcano, t9k, or a scheduler with scheduler-plugins' coscheduling.")
@click.option("--resumed", "is_resumed", is_flag=True, help="Show what the pods run after a pause.")
@_with_files
def render(files: tuple[str, ...], more: tuple[str, ...], **how: Any) -> int:
    """Print the objects that the operator would create for the MPIJobs of YAML files, without a cluster."""
    sys.stdout.write(render_.render(_read((*files, *more)), **how))
    return 0


@command.command()
@click.option(
    "--launcher",
    type=_NAMES,
    default=DEFAULT,
    show_default=True,
    help="MPI for the jobs that it suits, and for all other pods.",
)
@_folder_option
def up(launcher: str, folder: str | None) -> int:
    """Start a stand-in cluster with the operator, for kubectl and your own MPIJobs, until Ctrl-C."""
    return apply_.up(LAUNCHERS[launcher], folder)
