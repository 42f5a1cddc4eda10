"""The transitions of the state machine up to the acknowledgement, made as those in `transitions`.

A try that failed before the command is known to run is followed by another. If it may have started the command without
an acknowledgement, the worker is asked first: mpirun must see only one daemon per worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rshagent.session import decisions
from rshagent.session.decisions import Finish
from rshagent.session.events import Do, ReportRetry, Say, SetTimer, State, StreamEnded, UseContainer, WorkerEnded
from rshagent.session.transitions import believed, finish, recovered, started
from rshagent.stream.status import Exited, Failure

if TYPE_CHECKING:
    from rshagent.session.events import Effect, ExitRecovered, PassSignal
    from rshagent.session.facts import Facts
    from rshagent.session.transitions import Step
    from rshagent.session.view import View

_CLEANUP_S = 0.1


def queue(_facts: Facts, _event: object, _seen: View) -> Step:
    """Ask for a start slot."""
    return State.QUEUED, (Do.QUEUE,)


def begin_try(facts: Facts, event: object, seen: View) -> Step:
    """Send the request, unless the worker is not ready or a cleanup would kill the command."""
    if seen.is_in_danger:
        return State.BACKOFF, (SetTimer(_CLEANUP_S),)
    if seen.is_ready or facts.takes_unready:
        return _request(facts, seen)
    facts.waits_since = seen.now
    return wait(facts, event, seen)


def wait(facts: Facts, _event: object, seen: View) -> Step:
    """Wait for the worker, as long as its state is worth it."""
    found = decisions.unready(seen.pod, facts.waits_since, seen.now, facts.limits, finds_workers=seen.finds_workers)
    if isinstance(found, Finish):
        return finish(facts, found)
    if found:
        return State.WAITING, (SetTimer(found),)
    facts.takes_unready = True
    if facts.state is State.QUEUED:  # it has its start slot
        return _request(facts, seen)
    return State.QUEUED, (Do.QUEUE,)


def _request(facts: Facts, seen: View, *first: Effect) -> Step:
    facts.tries.begin(seen.now, facts.limits["start"])
    return State.STARTING, (*first, Do.OPEN_STREAM, SetTimer(facts.limits["acknowledge"]))


def start_ended(facts: Facts, event: StreamEnded, seen: View) -> Step:
    """The stream ended before the acknowledgement: fail, look for the command, or try again."""
    outcome, reason = believed(facts, event, seen)
    if isinstance(outcome, Exited):
        return finish(facts, Finish(outcome.code, f"the command did not start (its shell ended with {outcome.code})"))
    if outcome is None:  # and with the stream perhaps an acknowledgement was lost
        facts.may_run |= seen.wire.may_run
        facts.failure = Failure(reason, retryable=True)
        if seen.wire.may_run and seen.wire.has_command and not seen.stdio.reads_stdin:  # input has gone with the stream
            return State.FINDING, (SetTimer(facts.tries.left_s(seen.now)), Do.ASK_WORKER)
        return _retry(facts, facts.failure, seen)
    if outcome.containers and seen.target.container is None:
        return _request(facts, seen, UseContainer(outcome.containers[0]))  # as kubectl does
    return _retry(facts, outcome, seen)


def start_timed_out(facts: Facts, _event: object, seen: View) -> Step:
    """The worker took too long to start the command: the stream counts as lost."""
    limit_s = facts.limits["acknowledge"]
    return start_ended(facts, StreamEnded(None, f"the worker did not start the command within {limit_s:.0f} s"), seen)


def worker_ended_at_start(facts: Facts, event: WorkerEnded, seen: View) -> Step:
    """The stream counts as lost: the next worker of its name may exist already."""
    return start_ended(facts, StreamEnded(None, event.reason), seen)


def not_found(facts: Facts, event: object, seen: View) -> Step:
    """The worker does not run the command, can't say so in time, or has ended: the try has failed."""
    failure = Failure(event.reason, retryable=True) if isinstance(event, WorkerEnded) else facts.failure
    assert failure is not None
    return _retry(facts, failure, seen)


def found(facts: Facts, _event: object, seen: View) -> Step:
    """The command runs, although its stream was lost before it said so."""
    return State.RECOVERING, started(facts, seen)


def found_ended(facts: Facts, event: ExitRecovered, seen: View) -> Step:
    """The command has ended already, or was never started."""
    if event.code is None:
        return not_found(facts, event, seen)
    effects = started(facts, seen)
    state, more = recovered(facts, event, seen)
    return state, (*effects, *more)


def _retry(facts: Facts, failure: Failure, seen: View) -> Step:
    found = facts.tries.failed(failure, seen.now)
    if not isinstance(found, Finish):
        facts.retries += 1
        ended = () if facts.may_run else (Do.END_CLEANUP,)
        return State.BACKOFF, (*ended, ReportRetry(failure.message), SetTimer(found))
    if not facts.may_run:
        return finish(facts, found)
    facts.code, facts.reason = found.code, found.reason
    return State.GRACE, (Do.CLOSE_STREAM, SetTimer(0.0), Say(found.reason))


def hold_signal(facts: Facts, event: PassSignal, _seen: View) -> Step:
    """Keep a signal until the command runs."""
    if event.number not in facts.early_signals:
        facts.early_signals.append(event.number)
    return facts.state, ()
