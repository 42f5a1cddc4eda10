"""The transitions of the state machine while the command runs, and to the session's end.

Each function takes the facts, the event and what the runner sees, changes the facts, and returns the next state and the
effects, in order. `machine` says which function is for which event in which state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.session import decisions
from rshagent.session.decisions import PASSED_ON, PIPE, Finish
from rshagent.session.events import Do, Reap, Say, SendSignal, SetTimer, State, Stop, StreamEnded, WorkerEnded
from rshagent.stream.status import AGENT_FAILED, Exited, Failure

if TYPE_CHECKING:
    from rshagent.session.events import Effect, ExitRecovered, PassSignal, Reaped, Resume
    from rshagent.session.facts import Facts
    from rshagent.session.view import View
    from rshagent.stream.streams import Acknowledged

    Step = tuple[State, tuple[Effect, ...]]

_FLUSH_S = 1.0  # for the last output of a command that has ended
_TELL_PID_S = 1.0  # most commands are over before their process id is worth a message
_RECHECK_S = 1.0
_INTERNAL_ERROR = "an internal error of the agent; the hub's log says where"

NOT_REQUESTED = (State.QUEUED, State.WAITING, State.BACKOFF)
ENDING = (State.GRACE, State.REAPING, State.RECHECK)


def stay(facts: Facts, _event: object, _seen: View) -> Step:
    """Nothing to do: the event may come in this state, but it changes nothing."""
    return facts.state, ()


def never(facts: Facts, _event: object, _seen: View) -> Step:
    """What the table does not have: nothing that the state holds reports it."""
    return facts.state, ()


# While the command runs


def acknowledged(facts: Facts, event: Acknowledged, seen: View) -> Step:
    """The command runs."""
    facts.pid = event.pid or None
    return State.RUNNING, (*started(facts, seen), SetTimer(_TELL_PID_S), Do.START_STDIN)


def acknowledged_late(facts: Facts, event: Acknowledged, seen: View) -> Step:
    """It started while the session was ending already."""
    facts.pid, facts.acknowledged_at = event.pid or None, seen.now
    return facts.state, ()


def started(facts: Facts, seen: View) -> tuple[Effect, ...]:
    """Note that the command runs, or ran; return what follows from that."""
    facts.acknowledged_at = seen.now
    early, facts.early_signals = facts.early_signals, []
    return Do.NOTE_START, *(_send(facts, number) for number in early)


def _send(facts: Facts, number: int) -> SendSignal:
    if number not in facts.ours:
        facts.ours = (*facts.ours, number)
    return SendSignal(PASSED_ON[number])


def pass_signal(facts: Facts, event: PassSignal, _seen: View) -> Step:
    """Send the command a signal."""
    return facts.state, (_send(facts, event.number),)


def tell_pid(facts: Facts, _event: object, _seen: View) -> Step:
    """The command lasts: its process id is worth a message."""
    return facts.state, (Do.TELL_CLIENT,)


def stall(_facts: Facts, _event: object, _seen: View) -> Step:
    """A stream that is stalled by its stdin may not bring its end, either."""
    return State.STALLED, (Do.TELL_CLIENT, Do.ASK_WORKER)


def stream_ended(facts: Facts, event: StreamEnded, seen: View) -> Step:
    """The command ended, or its stream was lost."""
    outcome, _ = believed(facts, event, seen)
    if isinstance(outcome, Exited):
        return finish(facts, Finish(outcome.code))
    # A failure that the server reports after the start is about the stream, not about the command.
    return State.RECOVERING, (Do.WARN_LOST, Do.STOP_STDIN, Do.TELL_CLIENT, Do.ASK_WORKER)


def resume(facts: Facts, event: Resume, _seen: View) -> Step:
    """The stream of a session of an earlier hub was lost with that hub."""
    facts.pid = event.pid
    return State.RECOVERING, (Do.STOP_STDIN, Do.ASK_WORKER)


def worker_ended(facts: Facts, event: WorkerEnded, _seen: View) -> Step:
    """Nothing runs there any more."""
    _note_worker_end(facts, event.reason)
    return finish(facts, Finish(event.code, event.reason))


# What the worker says of the command's end


def recovered(facts: Facts, event: ExitRecovered, seen: View) -> Step:
    """The worker's answer is the end."""
    if event.code is not None:
        _note_status(facts, event.code, seen)
    elif facts.acknowledged_at or facts.pid is not None:
        facts.cut = event.reason
    return finish(facts, decisions.settled(event.code, event.reason, has_output=facts.has_output))


def recovered_at_stall(facts: Facts, event: ExitRecovered, seen: View) -> Step:
    """The stream may still bring more, but is not relied on."""
    if event.code is not None:  # the stream is stalled, or was: the last of the output may be on its way
        _note_status(facts, event.code, seen)
        facts.worker_code = event.code
        return State.FLUSHING, (SetTimer(_FLUSH_S),)
    return recovered(facts, event, seen) if seen.wire.is_silent else (State.RUNNING, ())


def recovered_at_end(facts: Facts, event: ExitRecovered, seen: View) -> Step:
    """Note how the command ended; the session's exit code is known."""
    if event.code is not None:
        _note_status(facts, event.code, seen)
    return facts.state, ()


def flushed(facts: Facts, _event: object, seen: View) -> Step:
    """No more output came in time."""
    assert facts.worker_code is not None
    if seen.stdio.is_behind:  # the stream waits for the reader of its output
        return State.FLUSHING, (SetTimer(_FLUSH_S),)
    if seen.wire.is_confirmed:  # the last that the command says by its stream
        return finish(facts, Finish(facts.worker_code))
    return finish(facts, decisions.settled(facts.worker_code, "", has_output=facts.has_output))


# The end


def stop(facts: Facts, event: Stop, seen: View) -> Step:
    """End the command if it runs, or may run."""
    facts.signal, facts.is_client_dead = event.number, event.number is None
    told = decisions.told_to_end(event.number)
    facts.code, facts.reason = told.code, told.reason
    is_requested = facts.state not in NOT_REQUESTED
    if facts.state is State.DRAINING or not (is_requested or facts.may_run):
        return end(facts, event, seen)
    grace_s = event.grace_s if is_requested else 0.0  # else there is no stream that could end by itself
    effects: list[Effect] = [SetTimer(grace_s)]
    if event.number is None:  # the other ends of these may wait for the close
        effects += [Do.CLOSE_STDIO, Do.RESUME_STREAM]
    if facts.state is State.RECOVERING and grace_s:  # no stream reports how it ends
        effects.append(Do.ASK_WORKER)
    return State.GRACE, tuple(effects)


def stdout_closed(facts: Facts, _event: object, seen: View) -> Step:
    """End as ssh does when its stdout is closed."""
    return stop(facts, Stop(PIPE, 0.0), seen)


def stdout_closed_at_end(facts: Facts, event: object, seen: View) -> Step:
    """Its backlog is gone with it; stderr may still have one."""
    return (facts.state, ()) if seen.stdio.is_behind else end(facts, event, seen)


def reap(facts: Facts, _event: object, _seen: View) -> Step:
    """The grace is over; or no request can be on its way any more, once the stream is closed."""
    first = (Do.CLOSE_STREAM,) if facts.state is State.RECHECK else ()
    return State.REAPING, (*first, Reap(decisions.ends_by(facts.signal)))


def reaped(facts: Facts, event: Reaped, seen: View) -> Step:
    """Nothing is left, as far as that can be known."""
    if not event.reason and not facts.acknowledged_at and seen.wire.stream is not None:
        return State.RECHECK, (SetTimer(_RECHECK_S),)  # the request may be on its way through the API server
    if event.reason:
        facts.reason += f"; {event.reason}"
    return end(facts, event, seen)


def ending_stream_ended(facts: Facts, event: StreamEnded, seen: View) -> Step:
    """A status is the end, unless processes are being ended: some of the session's may be left."""
    outcome, _ = believed(facts, event, seen)
    is_over = isinstance(outcome, Exited) and facts.state is not State.REAPING
    return end(facts, event, seen) if is_over else (facts.state, ())


def worker_ended_at_end(facts: Facts, event: WorkerEnded, seen: View) -> Step:
    """Nothing is left to end."""
    _note_worker_end(facts, event.reason)
    return end(facts, event, seen)


def abandon(facts: Facts, _event: object, _seen: View) -> Step:
    """End with an error of our own."""
    return finish(facts, Finish(AGENT_FAILED, _INTERNAL_ERROR))


def abandon_at_end(facts: Facts, event: object, seen: View) -> Step:
    """End with the exit code that is known."""
    facts.reason += f"; its processes may be left: {_INTERNAL_ERROR}"
    return end(facts, event, seen)


def finish(facts: Facts, end: Finish) -> Step:
    """Report why where it is our failure, then end as soon as all output is written."""
    facts.code, facts.reason = end.code, end.reason
    return State.DRAINING, (*((Say(end.reason),) if end.reason else ()), Do.TRACE, Do.DRAIN)


def end(facts: Facts, _event: object, seen: View) -> Step:
    """Close everything; the exit code is final."""
    ended = seen.worker_end() if facts.state in ENDING else None
    if ended is not None:  # mpirun may kill its agents before they know it
        _note_worker_end(facts, ended[0])
    if facts.code == 0 and seen.stdio.is_broken:  # which is known only after the command's end at times
        told = decisions.told_to_end(PIPE)
        facts.code, facts.reason = told.code, told.reason
    facts.ended_at = seen.now
    return State.ENDED, (Do.CLOSE,)


def resume_stream(facts: Facts, _event: object, _seen: View) -> Step:
    """Read more output."""
    return facts.state, (Do.RESUME_STREAM,)


def expect_more(facts: Facts, _event: object, _seen: View) -> Step:
    """Read more output, and give the stream time for it."""
    return facts.state, (Do.RESUME_STREAM, SetTimer(_FLUSH_S))


def believed(facts: Facts, event: StreamEnded, seen: View) -> tuple[Exited | Failure | None, str]:
    """Record the end of a stream, and return what it means: a 0 that is not confirmed is a lost stream."""
    outcome = event.outcome
    if isinstance(outcome, Exited) and outcome.code == 0 and not seen.wire.is_confirmed:
        return None, "the API server reported a success that the command did not confirm"
    if isinstance(outcome, Exited) and facts.acknowledged_at:
        _note_status(facts, outcome.code, seen)
    return outcome, event.reason


def _note_status(facts: Facts, code: int, seen: View) -> None:
    """Remember if the command was killed, by a signal that we had not sent yet."""
    # A launcher whose output travels by the stream reports a loss itself; if its agents die, all was killed.
    is_orphan = facts.is_client_dead and not seen.parts.sent and not facts.has_output
    facts.cut = facts.cut or decisions.killed(code, (*facts.ours, *seen.parts.sent), is_orphan=is_orphan)


def _note_worker_end(facts: Facts, reason: str) -> None:
    """Remember that the worker ended while the command ran."""
    if facts.acknowledged_at:
        facts.cut = facts.cut or reason
