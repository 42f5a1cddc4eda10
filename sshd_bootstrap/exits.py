"""How the preparation ends: its exit codes (docs/ssh.md explains them), its error, and the termination message.

A container's termination log becomes the message in its status.
"""

from __future__ import annotations

import os

PREPARED = 0
USAGE = 2  # a variable or an argument can't be understood
SECRET_INCOMPLETE = 10
KEY_BROKEN = 11
KEYS_DIFFER = 12
VOLUME = 20
MODE_CHANGED = 21
PORT = 22
HELPER_MISSING = 23


class BootstrapError(Exception):
    """The preparation can't be done: the exit code, and one line that says what, why and what to do."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


TERMINATION_LOG = "/dev/termination-log"
_MAX_BYTES = 4096  # what the kubelet reads of it


def write_termination_message(text: str, path: str) -> None:
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
