"""`exec`: a command in a job's pod, by kubectl, which has terminals that resize and every way to log in."""

from __future__ import annotations

import os
import shutil
import sys

import click

from agents.client import MpiClient
from agents.kubectl_mpi.options import connection_options


@click.command("exec")
@click.argument("job")
@click.argument("command", nargs=-1, metavar="[COMMAND...]")
@click.option("--worker", type=click.IntRange(min=0), metavar="N", help="In a worker; default: in the launcher.")
@connection_options("-n", "--namespace")
def exec_in(
    *,
    job: str,
    command: tuple[str, ...],
    worker: int | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> None:
    """Run a command, by default a shell, in a job's launcher or worker; end with its exit code."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise click.UsageError("exec needs kubectl on PATH")
    with MpiClient(namespace=namespace, context=context, kubeconfig=kubeconfig) as client:
        pod = client.pod(job, worker)
        where = ["-n", client.namespace, pod.name, "-c", pod.state.main_container]
    access = [f"--context={context}"] if context else []
    access += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    os.execv(kubectl, [kubectl, "exec", *access, "-i", *terminal, *where, "--", *(command or ("sh",))])
