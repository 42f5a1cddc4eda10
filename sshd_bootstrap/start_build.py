"""Compile sshd-start as the client is: `python -m sshd_bootstrap.start_build OUT [--sanitize]`."""

from __future__ import annotations

import os
import sys
from functools import partial

from rshagent.native import client_build

_HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = [
    os.path.join(_HERE, name)
    for name in ("start.c", "start_checks.c", "start_common.c", "start_session.c", "start_waiting.c")
]


main = partial(client_build.run, "sshd_bootstrap.start_build", sources=SOURCES, others={})

if __name__ == "__main__":
    sys.exit(main(None))
