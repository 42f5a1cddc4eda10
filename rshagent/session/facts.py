"""What the state machine of a session knows: the facts that it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.session.decisions import Tries
from rshagent.session.events import State
from rshagent.stream.status import AGENT_FAILED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rshagent.stream.status import Failure


class Facts:
    """What is known of one session. Times are seconds of the loop's clock, 0 for what has not happened.

    Only `step` changes them, but the hub adds to `ours` what it sends itself.
    """

    __slots__ = (
        "acknowledged_at", "code", "created_at", "cut", "early_signals", "ended_at", "failure", "has_output",
        "is_client_dead", "limits", "may_run", "ours", "pid", "reason", "retries", "signal", "state", "takes_unready",
        "tries", "waits_since", "worker_code",
    )  # fmt: skip

    def __init__(self, now: float, limits: Mapping[str, float], *, has_output: bool = True) -> None:
        self.state = State.QUEUED
        self.limits = limits
        self.code, self.reason = AGENT_FAILED, ""  # the exit code, and a line about a failure of our own
        self.created_at, self.acknowledged_at, self.ended_at = now, 0.0, 0.0
        self.retries = 0
        self.pid: int | None = None  # the bootstrap's process id in the worker
        self.has_output = has_output  # what the command writes is output of the job (`decisions.has_output`)
        self.signal: int | None = None  # the one to the client that ended the session
        self.is_client_dead = False
        self.cut = ""  # by what the command ended, if that was neither itself nor us
        self.ours: tuple[int, ...] = ()  # signals by which the command may have ended that we sent
        self.tries = Tries()
        self.may_run = False  # a try may have started the command without an acknowledgement
        self.failure: Failure | None = None  # of the try that exit recovery asks about
        self.waits_since = 0.0
        self.takes_unready = False  # the worker runs, but its readiness probe failed for too long
        self.early_signals: list[int] = []  # that are for the command, once it runs
        self.worker_code: int | None = None  # the exit status, as the worker says, while the stream is stalled
