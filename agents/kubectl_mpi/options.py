"""What all commands share: options, output, and errors as exit codes.

Exit codes: 0 done; 1 the job failed, or the API server refused the request; 2 usage, or an invalid job; 3 no cluster,
or it does not answer or accept the credentials; 4 no such job; 5 a right is missing; 124 a time limit is over; 130
Ctrl-C.
`run` and `exec` end with the exit code of the program instead, if there is one.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Self

import click
import yaml

from agents.client import (
    AccessError,
    ClientError,
    ForbiddenError,
    ManifestError,
    MpiClient,
    NotFoundError,
    WaitTimeoutError,
)
from agents.client.model import as_json
from agents.common import durations
from agents.job.model import Implementation
from agents.kubectl_mpi.tables import Terminal

MPI = {"openmpi": Implementation.OPEN_MPI, "mpich": Implementation.MPICH, "intel": Implementation.INTEL}
FAILED, USAGE, NO_ACCESS, NOT_FOUND, FORBIDDEN, TIMEOUT, INTERRUPTED = 1, 2, 3, 4, 5, 124, 130

_PROGRESS_S = 2.0
_ERASE = "\r\x1b[K"

_CODES: dict[type[ClientError], int] = {
    AccessError: NO_ACCESS,
    NotFoundError: NOT_FOUND,
    ForbiddenError: FORBIDDEN,
    ManifestError: USAGE,
    WaitTimeoutError: TIMEOUT,
}
_P = ParamSpec("_P")


def exit_code(error: ClientError) -> int:
    """Return the exit code that stands for an error."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)


class ProgramCommand(click.Command):
    """A command with an argument and then a program, whose words are its own: `exec pi mpirun -n 2 hostname`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """End the options before the program, as `--` does."""
        options = [one for one in self.params if isinstance(one, click.Option) and not one.is_flag]
        valued = {flag for one in options for flag in one.opts}
        at, words = 0, 0
        while at < len(args) and args[at] != "--":
            words += not args[at].startswith("-")
            if words == 2:
                return super().parse_args(ctx, [*args[:at], "--", *args[at:]])
            at += 2 if args[at] in valued else 1
        return super().parse_args(ctx, args)


def connection_options(*namespace: str) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """Add --context, --kubeconfig and the namespace by these names: in `run`, -n is the number of ranks."""

    def add(command: Callable[_P, None]) -> Callable[_P, None]:
        help_text = "Where the job is; default: the context's namespace."
        command = click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")(command)
        command = click.option("--context", metavar="NAME", help="Which context of the kubeconfig to use.")(command)
        return click.option(*namespace, "namespace", metavar="NAME", help=help_text)(command)

    return add


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --namespace, --context and --kubeconfig: `command` gets a client in their place."""

    @functools.wraps(command)
    def wrapped(*, namespace: str | None, context: str | None, kubeconfig: str | None, **options: Any) -> None:
        with MpiClient(namespace=namespace, context=context, kubeconfig=kubeconfig) as client:
            command(client, **options)

    return connection_options("-n", "--namespace")(wrapped)


def output_option(*formats: str) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """Add -o with these formats."""
    return click.option("-o", "--output", type=click.Choice(formats), help="Format; default: a table or text.")


def chosen(values: Mapping[str, object]) -> dict[str, Any]:
    """Return what makes an option's value one of these, by their names; None if it is not given."""
    return {"type": click.Choice(list(values)), "callback": lambda _context, _parameter, given: values.get(given)}


def duration(_context: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Return the seconds of 90, 90s, 10m or 1h30m: a callback of options."""
    try:
        return None if given is None else durations.parse(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def program() -> str:
    """How the command was called: kubectl runs a plugin by its file."""
    return "kubectl mpi" if os.path.basename(sys.argv[0]) == "kubectl-mpi" else "kubectl-mpi"


def another(command: str, job: str) -> str:
    """Return the line that calls another command for a job, at the place that this command was given."""
    given = click.get_current_context().params
    options = {"-n": "namespace", "--context": "context", "--kubeconfig": "kubeconfig"}
    where = [word for flag, name in options.items() if given.get(name) for word in (flag, given[name])]
    return f"{program()} {shlex.join([command, job, *where])}"


def is_live() -> bool:
    """Whether stdout is a terminal that can show colours and be redrawn."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def stdout() -> Terminal:
    """Return what stdout is. A terminal is coloured unless NO_COLOR is set (https://no-color.org)."""
    if not is_live():
        return Terminal()
    columns = shutil.get_terminal_size().columns
    if os.environ.get("NO_COLOR"):
        return Terminal(width=columns)
    return Terminal(lambda text, colour: click.style(text, fg=colour) if colour else text, columns)


def show(lines: Sequence[str]) -> None:
    """Write lines to stdout, and flush."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # yaml has no types
    """Writes a text of several lines, such as a script, line by line."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None),
)


def show_as(found: Any, output: str) -> None:
    """Write a value of the client, or a manifest, as JSON or YAML."""
    text = json.dumps(as_json(found), indent=2)
    if output == "json":
        show([text])
    else:
        plain = json.loads(text)  # what is there twice is no anchor and alias
        sys.stdout.write(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
        sys.stdout.flush()


class Progress:
    """The progress of a command, on stderr: one line that changes on a terminal, else a line every two seconds."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()

    def __call__(self, line: str) -> None:
        """Show a line."""
        if self._is_live:
            sys.stderr.write(f"{_ERASE}{line[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
        elif time.monotonic() - self._last >= _PROGRESS_S:
            self._last = time.monotonic()
            note(line)


def note(text: str) -> None:
    """Write a line to stderr: stdout is for results."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
