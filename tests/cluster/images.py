"""What the images under test are called: by the project's version, under MPI_AGENTS_REPOSITORY if there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from images import catalog

# Registry and path before the names: what `images.build --repository` was given.
REPOSITORY = os.environ.get("MPI_AGENTS_REPOSITORY", "").rstrip("/")

# Some take long to build or are large, and so are there only where somebody has asked for them (CONTRIBUTING.md).
needs_horovod = pytest.mark.needs_image("horovod")

DATA = Path(os.environ.get("TEST_DATA") or Path(catalog.ROOT).parent / "shared" / "data")
"""Files of others that tests use and the project doesn't have."""
NPB = DATA / "NPB3.4.2.tar.gz"
BENCH_MEM = DATA / "benchMEM.zip"


def is_asked_for(name: str) -> bool:
    """Whether CLUSTER_IMAGES says that an image is there or should be built: `all`, or names with commas between."""
    return not {"all", name}.isdisjoint(os.environ.get("CLUSTER_IMAGES", "").split(","))


def image(name: str) -> str:
    """The full name of an image of `images/catalog.py`."""
    return catalog.IMAGES[name].tag(catalog.version(), REPOSITORY)


def under_repository(written: str) -> str:
    """The full name of an image as an example has it, which names no registry."""
    return f"{REPOSITORY}/{written}" if REPOSITORY else written
