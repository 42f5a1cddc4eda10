"""Programs that tests compile, once for all processes of a pytest run."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from rshagent.native import client_build

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def built(
    factory: pytest.TempPathFactory,
    name: str,
    sources: list[str] = client_build.CLIENT,
    *,
    sanitize: bool = False,
    **constants: int,
) -> Path:
    """Return the path of a program; `constants` are shorter in it than in the product."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # of all processes of this run
    kind = "-".join([name, "sanitized" if sanitize else "static", *(f"{one}-{constants[one]}" for one in constants)])
    folder = base / "programs" / kind
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            client_build.build(os.fspath(folder / name), sanitize=sanitize, sources=sources, constants=constants)
    return folder / name
