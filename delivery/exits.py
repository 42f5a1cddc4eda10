"""How delivery ends: its exit codes (docs/delivery.md explains them) and the error that carries one."""

from __future__ import annotations

from agents.common.not_ready import NotReady, Tolerance

READY = 0
USAGE = 2
HOSTFILE = 10
API_SETUP = 11
API_REFUSED = 12
SSH_FILES = 13
CANNOT_START = 20
ENDED = 21
GONE = 22
GRACE_OVER = 23
TIMED_OUT = 24
TARGET = 30
TOOL_MISSING = 31


def of_reason(reason: NotReady) -> int:
    """Return the exit code where a worker was not ready for too long."""
    if reason.tolerance is Tolerance.NONE:
        return CANNOT_START
    if reason.tolerance is Tolerance.REPLACEMENT:
        return GONE if reason.is_gone else ENDED
    return GRACE_OVER


class DeliveryError(Exception):
    """Delivery can't be completed: one line that says what, why and what to do, and the exit code for it."""

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class StoppedBySignal(SystemExit):
    """The kubelet (or a person) told delivery to end; the exit code is 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number
