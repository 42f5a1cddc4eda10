"""`doctor`: checks of the cluster, the user's rights and a job, each with what to do."""

from __future__ import annotations

import sys

import click

from agents.client import AccessError, MpiClient, manifests
from agents.client.doctor import Group, Level, Subject, ordered, skip, without_cluster
from agents.job.json_object import Body, part
from agents.job.model import MPI_JOB
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.options import (
    FAILED,
    Progress,
    connection_options,
    output_option,
    show,
    show_as,
    stdout,
)


@click.command()
@click.argument("job", required=False)
@click.option("-f", "--file", metavar="FILE", help="A job to check before submitting: YAML or JSON; - is stdin.")
@click.option("--probe", is_flag=True, help="Execute a script in the job's running pods, too.")
@output_option("json", "yaml")
@connection_options("-n", "--namespace")
def doctor(*, job: str | None, file: str | None, probe: bool, output: str | None, **access: str | None) -> None:
    """Check the cluster, your rights, and a job that is there or in a file. Exit code 1: a check failed."""
    if job is not None and file is not None:
        raise click.UsageError("either a job or a file")
    if probe and job is None:
        raise click.UsageError("--probe needs a job that has pods")
    manifest = None if file is None else _job(file)
    if manifest is not None:
        access["namespace"] = access["namespace"] or str(part(manifest, "metadata").get("namespace") or "") or None
    try:
        with MpiClient(**access) as client, Progress() as report:
            found = client.doctor(job, manifest=manifest, probes=probe, report=report)
    except AccessError as error:
        if manifest is None or access["context"] or access["kubeconfig"]:
            raise
        checks = without_cluster(Subject(manifests.placed(manifest, access["namespace"] or "default")))
        found = ordered([*checks, skip(Group.CLUSTER, "all other checks", str(error))])
    if output is not None:
        show_as(found, output)
    else:
        show(tables.checks(found, stdout()))
    if any(one.level is Level.FAIL for one in found):
        sys.exit(FAILED)


def _job(file: str) -> Body:
    """Return the one job of a file."""
    jobs = [one for one in manifests.read(file) if one.get("kind") == MPI_JOB]
    if len(jobs) != 1:
        raise click.UsageError(f"{file} has {len(jobs)} MPIJobs: doctor checks a single job")
    return jobs[0]
