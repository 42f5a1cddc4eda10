"""The command line: `python -m tests.cluster.bed up | down | status | engine`."""

from __future__ import annotations

import sys

import click

from .bed import Bed
from .places import BedError, Places


def _say(text: str) -> None:
    click.echo(f"bed: {text}", err=True)


@click.group(help=__doc__)
def command() -> None:
    """Group of commands."""


@command.command()
@click.option("--engine/--no-engine", help="Leave the docker engine running as well.")
def up(*, engine: bool) -> None:
    """Bring the cluster up, and print its kubeconfig's path."""
    bed = Bed(Places.of(), _say)
    bed.up()
    if engine:
        bed.engine.start()
    click.echo(bed.places.kubeconfig)


@command.command()
def down() -> None:
    """End the cluster and its engine, and take away what they made but for what was built."""
    Bed(Places.of(), _say).down()


@command.command()
def status() -> None:
    """Say which daemons live."""
    for name, daemon in Bed(Places.of()).daemons.items():
        click.echo(f"{name:24} {daemon.pid or '-'}")


@command.command()
@click.argument("image", nargs=-1, required=True)
def load(image: tuple[str, ...]) -> None:
    """Put images that the engine has built into the cluster."""
    bed = Bed(Places.of(), _say)
    bed.engine.start()
    bed.load_built(list(image))


if __name__ == "__main__":
    try:
        command(standalone_mode=False)
    except (BedError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        sys.exit(f"bed: {text}")
