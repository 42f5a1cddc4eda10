"""How the preparation ends: its exit codes (docs/ssh.md explains them), and its error."""

from __future__ import annotations

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
