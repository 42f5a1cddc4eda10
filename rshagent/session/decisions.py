"""Rules for the transitions of the state machine: what an exit status, a signal or a failure means for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rshagent.net.retry import Backoff
from rshagent.stream.status import AGENT_FAILED, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.common.pods import Pod

# Signals by number on Linux: the first are only passed on, all others end a session.
PASSED_ON = {10: "USR1", 12: "USR2", 14: "ALRM"}
ENDING = {1: "HUP", 2: "INT", 3: "QUIT", 15: "TERM"}
KILL, PIPE = 9, 13
_SIGNAL_MAX = 64

_DAEMONS = (b"orted", b"prted", b"hydra_pmi_proxy", b"hydra_bstrap_proxy")
_ENDS = bytes.maketrans(b"&|(\n", b";;;;")  # what stands before a command's name in a shell's text
_SEEN_TEXT = 16 * 1024


class Finish(NamedTuple):
    """End with `code`; `reason` is a line about a failure of our own, else ""."""

    code: int
    reason: str = ""


def settled(code: int | None, reason: str, *, has_output: bool) -> Finish:
    """Decide after a command whose stream was lost: `code` is its exit status, None where that is unknown."""
    if code is None:
        return Finish(AGENT_FAILED, f"the stream was lost, and how the command ended is unknown: {reason}")
    if code != 0:
        return Finish(code)
    if has_output:
        return Finish(AGENT_FAILED, "the command ended with 0, but the stream was lost, and output with it")
    return Finish(0, "the stream was lost, with the command's remaining output; it ended with 0")


def has_output(text: bytes, setting: str) -> bool:
    """Say whether what a command writes is output of the job, so that a 0 is no success where some of it was lost.

    `setting` is MPI_AGENT_LOST_OUTPUT, `fail` or `warn`. Without it: all commands do but those by which a launcher
    starts its daemons, whose ranks write by connections of their own. Horovod starts the ranks themselves.
    """
    if setting in ("fail", "warn"):
        return setting == "fail"
    for part in text[:_SEEN_TEXT].translate(_ENDS).split(b";"):
        first = part.split(None, 1)[:1]
        if first and first[0].strip(b"\"'").rpartition(b"/")[2] in _DAEMONS:
            return False
    return True


def killed(code: int, ours: tuple[int, ...], *, is_orphan: bool = False) -> str:
    """Say what ended a daemon that exited with `code`: a signal, and none of ours; "" if nothing did.

    `is_orphan`: its agent has died. Open MPI 5's mpirun kills its agents when it has lost a daemon, or is told to end.
    Its other daemons then exit with 0; the lost daemon's parent may hide the signal.
    """
    number = code - 128
    if number in ours:
        return ""
    if 0 < number <= _SIGNAL_MAX:
        return f"its daemon was killed by signal {number}"
    return f"its daemon exited with {code}" if is_orphan and code else ""


def unready(
    pod: Pod | None, since: float, now: float, limits: Mapping[str, float], *, finds_workers: bool
) -> float | Finish:
    """Return for how many more seconds to wait for a worker that has not been ready `since` then.

    0: start although it is not ready. `finds_workers`: a missing worker may have been scaled away.
    """
    runs = pod is not None and pod.phase == "Running"
    limit_s = limits["unready" if runs else "absent" if pod is None and finds_workers else "worker"]
    left_s = since + limit_s - now
    if left_s > 0:
        return left_s
    if runs:  # its probe may be about something else than MPI
        return 0.0
    state = f"it is {pod.phase or 'in no phase'}" if pod is not None else "there is no such pod"
    return Finish(AGENT_FAILED, f"the worker did not become ready within {limit_s:.0f} s: {state}")


def told_to_end(number: int | None) -> Finish:
    """Return the end of a session that signal `number` ends; None: that ends since its client has died."""
    if number is None:
        return Finish(AGENT_FAILED, "the client has died")
    reason = "stdout was closed by its reader" if number == PIPE else f"ended by SIG{ENDING.get(number, number)}"
    return Finish(128 + (number & 0x7F), reason)


def ends_by(number: int | None) -> str:
    """Return the name of the signal that a session's processes are sent when `number` ends it."""
    return ENDING.get(number or 0, "TERM")


class Tries:
    """The tries of one launch: how long after each the next one is, and which one was the last."""

    __slots__ = ("_backoff", "_deadline", "_failed_at")

    def __init__(self) -> None:
        self._backoff = Backoff()
        self._deadline = self._failed_at = 0.0

    def begin(self, now: float, limit_s: float) -> None:
        """Begin a try; `limit_s` is for all of them together, from the first one's beginning."""
        self._deadline = self._deadline or now + limit_s

    def left_s(self, now: float) -> float:
        """Return the seconds that are left for further tries."""
        return max(0.0, self._deadline - now)

    def failed(self, failure: Failure, now: float) -> float | Finish:
        """Return in how many seconds to try again, unless that can't help or the time is over."""
        delay_s = self._backoff.delay_s(failure.retry_after_s)
        self._failed_at = self._failed_at or now
        deadline, patience_s = self._deadline, failure.patience_s
        if patience_s is not None:
            deadline = min(deadline, self._failed_at + patience_s)
        if failure.retryable and now + delay_s <= deadline:
            return delay_s
        tries = self._backoff.tries
        return Finish(failure.exit_code, failure.message + (f" ({tries} tries)" if tries > 1 else ""))
