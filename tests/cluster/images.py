"""What the images under test are called: by the project's version, under MPI_AGENTS_REPOSITORY if there is one."""

from __future__ import annotations

import os

import pytest

from images import catalog

# Registry and path before the names: what `images.build --repository` was given.
REPOSITORY = os.environ.get("MPI_AGENTS_REPOSITORY", "").rstrip("/")

# It takes long to build, and so is there only where somebody has asked for it (CONTRIBUTING.md).
needs_horovod = pytest.mark.needs_image("horovod")


def image(name: str) -> str:
    """The full name of an image of `images/catalog.py`."""
    return catalog.IMAGES[name].tag(catalog.version(), REPOSITORY)


def under_repository(written: str) -> str:
    """The full name of an image as an example has it, which names no registry."""
    return f"{REPOSITORY}/{written}" if REPOSITORY else written
