"""The command that makes jobs of one API, or of Slurm, those of another: convert."""

from __future__ import annotations

from collections.abc import Iterator

import click

from agents.client import manifests
from agents.client.convert import Converted, Target, converted, from_sbatch
from agents.job.model import Implementation
from agents.kubectl_mpi.options import MPI, chosen, note, show, show_as

SBATCH = "sbatch"


@click.command()
@click.option("-f", "--file", required=True, metavar="FILE", help="MPIJobs as YAML or JSON, or a script; - is stdin.")
@click.option("--from", "source", type=click.Choice([SBATCH]), help="FILE is a batch script of Slurm.")
@click.option("--to", **chosen({str(one): one for one in Target}), default=str(Target.V1), show_default=True)
@click.option("--image", help="The image of a batch script's job; it must have the script's shell and an MPI.")
@click.option("--mpi", **chosen(MPI), help="Its MPI; default: openmpi.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def convert(
    *, file: str, source: str | None, to: Target, image: str | None, mpi: Implementation | None, output: str
) -> None:
    """Print jobs of kubeflow's or T9k's API, or a Slurm batch script, in another API; list on stderr what is lost."""
    if source == SBATCH and not image:
        raise click.UsageError("--from sbatch needs --image: the image that the job runs in")
    if source is None and (image or mpi):
        raise click.UsageError("--image and --mpi are for --from sbatch")
    for found in [*_converted(file, to, image, mpi)]:  # all or none
        for line in found.lost:
            note(f"{found.name}: lost: {line}")
        for body in found.manifests:
            if output == "yaml":
                show(["---"])
            show_as(body, output)


def _converted(file: str, to: Target, image: str | None, mpi: Implementation | None) -> Iterator[Converted]:
    text = manifests.read_text(file)
    if image is not None:
        yield from_sbatch(text, file, image, mpi or Implementation.OPEN_MPI, to)
    elif text.startswith("#!"):
        raise click.UsageError(f"{file} is a script: use --from sbatch --image IMAGE")
    else:
        yield from (converted(manifest, to) for manifest in manifests.read(file, text))
