"""A container's termination message: the kubelet puts it into the container's status when it has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

VERSION = 1  # of the messages that the operator reads
UNUSED = json.dumps({"version": VERSION, "sessions": 0})
"""Nothing was started in the workers: of a hub without a session, or of a launcher whose ssh key nobody has opened."""
_LOG = "/dev/termination-log"
_MAX_BYTES = 4096  # what the kubelet reads of it


def leave(message: str, environ: Mapping[str, str]) -> None:
    """Write the termination message if its file is there: the kubelet makes it. The environment may name another."""
    try:
        fd = os.open(
            environ.get("MPI_AGENT_TERMINATION_LOG") or _LOG, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK
        )
    except OSError:
        return
    try:
        os.write(fd, message.encode("utf-8", "replace")[:_MAX_BYTES])
    except OSError:
        pass
    finally:
        os.close(fd)
