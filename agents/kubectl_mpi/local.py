"""`local`, and what `run --local` does: jobs without a cluster, by `mpi-playground apply`, which this process becomes.

So its output, exit code, Ctrl-C and TERM are the playground's.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

import click

import agents
from agents.client import sync
from agents.job.json_object import Body

PROCESSES = "processes"
PODS = click.Choice([PROCESSES, "containers"])
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
PODS_HELP = "What pods are made of: processes of this machine, or Docker containers of the jobs' images."


@click.command()
@click.option("-f", "--file", type=_FILE, required=True, metavar="FILE", help="YAML or JSON with MPIJobs; - is stdin.")
@click.option("--pods", type=PODS, default=PROCESSES, show_default=True, help=PODS_HELP)
@click.option("--folder", type=click.Path(file_okay=False), help="For logs and claims; default: a temporary one.")
def local(*, file: str, pods: str, folder: str | None) -> None:
    """Run the jobs of a file without a cluster; end with the launcher's exit code. Ctrl-C removes everything."""
    kept = ["--folder", folder] if folder else []
    _become_playground("apply", "--pods", pods, *kept, "--filename", file)


def run_job(manifest: Body, pods: str, folder: str | None) -> NoReturn:
    """Run a job that `run` has made, with the files of a folder, or as processes in the current one.

    Raises ManifestError.
    """
    found = [manifest]
    if folder is not None:
        job = sync.mounted(manifest)
        files = sync.config_map(job, sync.packed(folder))
        files["metadata"] |= {key: text for key, text in manifest["metadata"].items() if key == "namespace"}
        found = [files, job]
    elif pods == PROCESSES:
        launcher = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        launcher.setdefault("workingDir", os.getcwd())
    file = os.memfd_create("jobs")
    os.write(file, "\n---\n".join(map(json.dumps, found)).encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    _become_playground("apply", "--pods", pods, "--filename", "-")


def _become_playground(*arguments: str) -> NoReturn:
    """Go on as that command, whichever folder we are in. Without what it needs it says what to install."""
    root = os.path.dirname(next(iter(agents.__path__)))
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    environ = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}  # not our folder's `agents`
    os.execve(sys.executable, [sys.executable, "-m", "agents.playground", *arguments], environ)
