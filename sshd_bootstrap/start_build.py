"""Compile sshd-start as the client is: `python -m sshd_bootstrap.start_build OUT [--sanitize]`."""

from __future__ import annotations

import os
import sys

from rshagent.native.client_build import BuildError
from rshagent.native.client_build import build as _build

_HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = [os.path.join(_HERE, name) for name in ("start.c", "start_checks.c", "start_session.c", "start_waiting.c")]


def build(out: str, *, sanitize: bool = False) -> None:
    """Compile it to the file `out` (mode 0755, replaced at once). Raises BuildError."""
    _build(out, sanitize=sanitize, sources=SOURCES)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit status (2: wrong usage, 1: can't be built)."""
    arguments = sys.argv[1:] if argv is None else argv
    outs = [argument for argument in arguments if not argument.startswith("-")]
    if len(outs) != 1 or set(arguments) - set(outs) - {"--sanitize"}:
        print("usage: python -m sshd_bootstrap.start_build OUT [--sanitize]", file=sys.stderr)
        return 2
    try:
        build(outs[0], sanitize="--sanitize" in arguments)
    except BuildError as error:
        print(f"start_build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
