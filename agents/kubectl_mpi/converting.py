"""The command that makes jobs of one API those of another: convert."""

from __future__ import annotations

import click

from agents.client.convert import Target, converted
from agents.kubectl_mpi.options import note, read_manifests, show, show_as


@click.command()
@click.option("-f", "--file", required=True, metavar="FILE", help="YAML or JSON with MPIJobs; - is stdin.")
@click.option("--to", type=click.Choice([str(one) for one in Target]), required=True, help="The API.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def convert(*, file: str, to: str, output: str) -> None:
    """Print jobs of kubeflow's or T9k's API in another one; say on stderr what is lost."""
    for manifest in read_manifests(file):
        found = converted(manifest, Target(to))
        for line in found.lost:
            note(f"{found.manifests[-1]['metadata'].get('name')}: lost: {line}")
        for body in found.manifests:
            if output == "yaml":
                show(["---"])
            show_as(body, output)
