"""Compile sshd-start as the client is: `python -m sshd_bootstrap.start_build OUT [--sanitize]`."""

from __future__ import annotations

import os
import sys

from rshagent.native import client_build

_HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = [
    os.path.join(_HERE, name)
    for name in ("start.c", "start_checks.c", "start_common.c", "start_session.c", "start_waiting.c")
]


def build(out: str, *, sanitize: bool = False) -> None:
    """Compile it to the file `out` (mode 0755, replaced atomically). Raises client_build.BuildError."""
    client_build.build(out, sanitize=sanitize, sources=SOURCES)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit status (2: wrong usage, 1: can't be built)."""
    return client_build.run("sshd_bootstrap.start_build", argv, SOURCES, {})


if __name__ == "__main__":
    sys.exit(main())
