"""`bundle`: what a bug report needs, as a tar."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import tarfile
import time
from collections.abc import Iterable

import click

from agents.client import MpiClient
from agents.kubectl_mpi.options import Progress, cluster_options, note, show


@click.command()
@click.argument("job")
@click.option("-o", "--output", "file", metavar="FILE", help="Default: JOB-bundle.tar.gz in this folder.")
@cluster_options
def bundle(client: MpiClient, *, job: str, file: str | None) -> None:
    """Write a tar for a bug report: objects, events and logs, without secrets."""
    path = file or f"{job}-bundle.tar.gz"
    try:
        with Progress() as report:
            files = client.bundle(job, report=report)
            _write(path, next(files), files)
    except FileExistsError:
        raise click.UsageError(f"{path} is there: name another file by -o") from None
    except OSError as error:
        raise click.UsageError(f"{path} can't be written: {error.strerror}") from None
    show([path])
    note("Check its contents before you share it: a secret without a name such as TOKEN or PASSWORD is not recognized.")


def _write(path: str, first: tuple[str, str], others: Iterable[tuple[str, str]]) -> None:
    """Write a tar of files, for its owner alone; remove it if it does not become whole. Raises OSError."""
    folder = os.path.basename(path).lstrip(".").partition(".")[0] or "bundle"
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(opened, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
            for name, text in itertools.chain([first], others):
                data = text.encode(errors="replace")
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
                tar.addfile(entry, io.BytesIO(data))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
