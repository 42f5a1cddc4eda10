"""The reason of a failure where Kubernetes looks for it: a container's termination log becomes its status's message."""

from __future__ import annotations

import os

DEFAULT = "/dev/termination-log"
_MAX_BYTES = 4096  # what the kubelet reads of it


def leave(text: str, path: str) -> None:
    """Write `text` to an existing termination log; where there is none (this is no container), nothing happens."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(fd, text.encode("utf-8", "replace")[:_MAX_BYTES])
    except OSError:
        pass
    finally:
        os.close(fd)
