"""`exec` and `cp`, by kubectl, which has terminals that resize, copies by tar, and every way to log in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from agents.client import MpiClient, NotFoundError, RefusedError
from agents.client.facts import PodFacts
from agents.kubectl_mpi.options import ProgramCommand, connection_options

_WORKER = click.option(
    "--worker", type=click.IntRange(min=0), metavar="N", help="In a worker; default: in the launcher."
)
_SHELL = ("sh", "-c", "if command -v bash >/dev/null; then exec bash; fi; exec sh")
_NO_TAR = 3
_CHECK = f'command -v tar >/dev/null || exit {_NO_TAR}; test -e "$1"'
_CHECK_S = 30.0
_IN_JOB = re.compile(r"([a-z0-9][a-z0-9.-]*):(.+)")  # anything else is a local path


@click.command("exec", cls=ProgramCommand)
@click.argument("job")
@click.argument("command", nargs=-1, metavar="[COMMAND...]")
@_WORKER
@connection_options("-n", "--namespace")
def exec_in(*, job: str, command: tuple[str, ...], worker: int | None, **access: str | None) -> None:
    """Run a command, by default a shell, in a job's launcher or worker; end with its exit code.

    In the launcher it has the job's MPI variables: mpirun starts ranks in the workers.
    """
    with MpiClient(**access) as client:
        enter(client.namespace, _running(client, job, worker), access, command)


@click.command()
@click.argument("source")
@click.argument("target")
@_WORKER
@connection_options("-n", "--namespace")
def cp(*, source: str, target: str, worker: int | None, **access: str | None) -> None:
    """Copy files from a job's launcher or worker, or to it: one path is JOB:PATH. The image needs `tar`."""
    at = [_IN_JOB.fullmatch(path) for path in (source, target)]
    (job, path), *more = [one.groups() for one in at if one is not None] or [("", "")]
    if not job or more:
        raise click.UsageError("exactly one of the two paths must be JOB:PATH")
    with MpiClient(**access) as client:
        pod = _running(client, job, worker)
        _check_copy(client, pod, path if at[0] else "/")
        namespace = client.namespace
    there = f"{pod.name}:{path}"
    if at[0] and os.path.isdir(target):  # kubectl would put what is in a directory there, not the directory
        target = os.path.join(target, os.path.basename(path.rstrip("/")))
    paths = ["--retries=10", there, target] if at[0] else [source, there]
    _become_kubectl("cp", *kubectl_options(namespace, pod, access), *paths)


def _check_copy(client: MpiClient, pod: PodFacts, path: str) -> None:
    """Check what kubectl cp says badly or not at all: it ends with 0 if there is no such file. Raises RefusedError."""
    done = client.execute(pod, ["sh", "-c", _CHECK, "sh", path], timeout_s=_CHECK_S)
    if done.exit_code == _NO_TAR:
        remedy = "`kubectl mpi exec JOB -- cat PATH > FILE` needs none"
        raise RefusedError(f"the image of {pod.name} has no tar, which cp needs: {remedy}")
    if done.exit_code:
        raise RefusedError(f"{pod.name} has no {path}")


def _running(client: MpiClient, job: str, worker: int | None) -> PodFacts:
    """Return a pod that can be executed in. Raises NotFoundError, also if its container does not run."""
    pod = client.pod(job, worker)
    if pod.main is None or pod.main.state != "running":
        has_ended = pod.main is not None and pod.main.state == "terminated"
        why = "it has ended" if has_ended or pod.why is None else pod.why.message
        raise NotFoundError(f"container {pod.state.main_container} of {pod.name} is not running: {why}")
    return pod


def kubectl_options(namespace: str, pod: PodFacts, access: dict[str, str | None]) -> list[str]:
    """Return kubectl's options that name a pod's main container."""
    given = [f"--{name}={access[name]}" for name in ("context", "kubeconfig") if access[name]]
    return [f"--namespace={namespace}", f"--container={pod.state.main_container}", *given]


def enter(namespace: str, pod: PodFacts, access: dict[str, str | None], command: Sequence[str]) -> NoReturn:
    """Run a command, by default a shell, in a pod's main container, with our terminal if there is one."""
    terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    options = kubectl_options(namespace, pod, access)
    _become_kubectl("exec", "-i", *terminal, *options, pod.name, "--", *(command or _SHELL))


def _become_kubectl(verb: str, *words: str) -> NoReturn:
    """Go on as kubectl."""
    kubectl = _kubectl(verb)
    os.execv(kubectl, [kubectl, verb, *words])


def call_kubectl(verb: str, *words: str) -> int:
    """Run kubectl with our streams to its end; return its exit code."""
    return subprocess.run([_kubectl(verb), verb, *words], check=False).returncode


def _kubectl(verb: str) -> str:
    found = shutil.which("kubectl")
    if found is None:
        raise click.UsageError(f"{verb} needs kubectl on PATH")
    return found
