"""The vocabulary of the state machine: its states, the events it takes, the effects it asks for."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from rshagent.stream.streams import Acknowledged

if TYPE_CHECKING:
    from rshagent.stream.status import Exited, Failure


class State(enum.Enum):
    """What a session is doing. The members are in the order of a session's life."""

    __hash__ = object.__hash__  # Enum's is in Python, and these are looked up at each event

    QUEUED = "queued"  # waits for a start slot
    WAITING = "waiting"  # waits for a worker that does not exist or is not ready
    BACKOFF = "backoff"  # waits for the next try
    STARTING = "starting"  # sent the request; whether the command started is not known
    FINDING = "finding"  # lost the stream before the acknowledgement: asks the worker whether the command runs
    RUNNING = "running"  # got the acknowledgement: from here on nothing is tried again
    STALLED = "stalled"  # runs, but its stream brings nothing: asks the worker how the command is
    FLUSHING = "flushing"  # knows the exit status from the worker; gives the stalled stream time for more output
    RECOVERING = "recovering"  # has no stream any more, or never had: asks the worker how the command ends
    GRACE = "grace"  # has to end: gives the command time to end by itself
    REAPING = "reaping"  # has to end: terminates the command's processes
    RECHECK = "recheck"  # found no process; the request may still arrive, so it looks once more
    DRAINING = "draining"  # knows the exit code; the reader of stdout or stderr is behind
    ENDED = "ended"  # has closed everything and reported its exit code


class On(enum.Enum):
    """An event without arguments."""

    __hash__ = object.__hash__

    BEGIN = enum.auto()  # start the command
    SLOT_GRANTED = enum.auto()  # the session may start now
    WORKER_READY = enum.auto()  # the worker has become ready
    TIMEOUT = enum.auto()  # the session's timer fired
    OUTPUT = enum.auto()  # output has come in FLUSHING
    STALLED = enum.auto()  # the stream brings nothing, maybe because the command does not read its stdin
    ALIVE = enum.auto()  # the worker says that the command runs
    DRAINED = enum.auto()  # the readers of stdout and stderr have caught up
    STDOUT_CLOSED = enum.auto()  # stdout was closed by its reader
    LEAVE = enum.auto()  # end now, whatever may be left of the session
    ABANDON = enum.auto()  # give up after an error of our own


class Resume(NamedTuple):
    """Take over a session of an earlier hub; `pid` is the bootstrap's process id, if it was known."""

    pid: int | None


class WorkerEnded(NamedTuple):
    """The worker can't be running the command any more; `code` is the session's exit code then."""

    reason: str
    code: int


class StreamEnded(NamedTuple):
    """The stream ended: with a status, with a failure that the server reported, or None if nothing is known."""

    outcome: Exited | Failure | None
    reason: str = ""


class ExitRecovered(NamedTuple):
    """The worker says how the command ended; `code` None: that can't be known, and `reason` says why."""

    code: int | None
    reason: str = ""


class Reaped(NamedTuple):
    """The command's processes were ended; `reason` says what may be left, else ""."""

    reason: str = ""


class PassSignal(NamedTuple):
    """The client got a signal that is for the command."""

    number: int


class Stop(NamedTuple):
    """End the session: by signal `number`, or None since the client died. The command has `grace_s` to end itself."""

    number: int | None
    grace_s: float


Event = On | Resume | WorkerEnded | Acknowledged | StreamEnded | ExitRecovered | Reaped | PassSignal | Stop


class Do(enum.Enum):
    """An effect without arguments."""

    __hash__ = object.__hash__

    QUEUE = enum.auto()  # ask for a start slot: SLOT_GRANTED follows
    OPEN_STREAM = enum.auto()  # tell the client, then send the exec request
    CLOSE_STREAM = enum.auto()
    RESUME_STREAM = enum.auto()  # read the stream again after a pause
    NOTE_START = enum.auto()  # the command runs: forget its text, take note of the cleanup that it began with
    END_CLEANUP = enum.auto()  # the try failed, and the cleanup that it began with
    TELL_CLIENT = enum.auto()  # send the client a new resume token
    START_STDIN = enum.auto()
    STOP_STDIN = enum.auto()
    CLOSE_STDIO = enum.auto()
    WARN_LOST = enum.auto()  # tell the user that further output is not available
    ASK_WORKER = enum.auto()  # start exit recovery: Alive and ExitRecovered follow
    TRACE = enum.auto()  # write the trace line, if it is on
    DRAIN = enum.auto()  # Drained follows, now or when stdout and stderr are written
    CLOSE = enum.auto()  # close everything, report the end


class SetTimer(NamedTuple):
    """Have a Timeout in so many seconds, instead of any earlier one."""

    seconds: float


class Say(NamedTuple):
    """Write a line about the worker to the client's stderr."""

    text: str


class ReportRetry(NamedTuple):
    """Report that another try follows, and why."""

    reason: str


class UseContainer(NamedTuple):
    """Name this container in the next request."""

    name: str


class SendSignal(NamedTuple):
    """Send the command's processes a signal, by name (without SIG)."""

    name: str


class Reap(NamedTuple):
    """End the command's processes, by this signal (without SIG) first: Reaped follows."""

    signal_name: str


Effect = Do | SetTimer | Say | ReportRetry | UseContainer | SendSignal | Reap
