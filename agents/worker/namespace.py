"""Whether the pod shares its process namespace (shareProcessNamespace)."""

from __future__ import annotations

import os


def is_shared() -> bool:
    """Whether the pod shares its process namespace: its first process is another container's, and no ancestor of ours.

    In a namespace of our own we are its first process, or descend from it. In the node's (hostPID) we descend from its
    first as well, by way of the runtime; what is to be seen there is not the pod's alone.
    """
    pid = os.getpid()
    for _ in range(64):
        if pid == 1:
            return False
        pid = _parent(pid)
        if pid <= 0:
            return True
    return False


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 1  # then nothing is known, and nothing is touched
