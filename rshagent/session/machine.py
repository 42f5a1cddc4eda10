"""The state machine of a session: `step` takes an event, changes the facts, and returns the effects to perform.

    QUEUED ◄─► WAITING                                        ┌──► STALLED ──► FLUSHING
      │ ▲                                                     │        │          │
      ▼ └── BACKOFF ◄─┐                                       ▼        ▼          ▼
    STARTING ─────────┼──── acknowledged ────────────────► RUNNING ─────────────────────► DRAINING ─► ENDED
      │ stream lost   │ not found                             │ stream lost (each of the three)  ▲       ▲
      └──────────► FINDING ──── found ──────────────────► RECOVERING ────────────────────────────┘       │
    any: told to end, client died, or failed where a try may run ──► GRACE ─► REAPING ◄─► RECHECK ───────┘

`TRANSITIONS` has the states in which each event can come; `start` and `transitions` have the functions that it names.
All of it is pure, except for the jitter of the delays. `session` performs the effects.

The rules: a start that was acknowledged or found is never tried again. No end without an exit status is a success. Each
session ends once. A timer belongs to the state that set it: the runner drops it, and what `HOLDS` does not name, when
the state changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rshagent.session import start
from rshagent.session import transitions as do
from rshagent.session.events import ExitRecovered, On, PassSignal, Reaped, Resume, State, Stop, StreamEnded, WorkerEnded
from rshagent.stream.streams import Acknowledged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rshagent.session.events import Effect, Event
    from rshagent.session.facts import Facts
    from rshagent.session.view import View

    Action = Callable[[Facts, Any, View], tuple[State, tuple[Effect, ...]]]

(
    QUEUED, WAITING, BACKOFF, STARTING, FINDING, RUNNING, STALLED, FLUSHING, RECOVERING, GRACE, REAPING, RECHECK,
    DRAINING, ENDED,
) = State  # fmt: skip

NOT_REQUESTED, ENDING = do.NOT_REQUESTED, do.ENDING
WITH_COMMAND = (RUNNING, STALLED, FLUSHING)
OVER = (DRAINING, ENDED)

STREAM, RECOVERY, REAPER, SLOT = "stream", "exit recovery", "reaper", "start slot"

HOLDS: dict[State, tuple[str, ...]] = {
    QUEUED: (SLOT,),  # or a place in the queue for one
    STARTING: (SLOT, STREAM),
    FINDING: (RECOVERY,),
    RUNNING: (STREAM,),
    STALLED: (STREAM, RECOVERY),
    FLUSHING: (STREAM,),
    RECOVERING: (RECOVERY,),
    GRACE: (STREAM,),  # exit recovery starts again, if the session was in it
    REAPING: (STREAM, RECOVERY, REAPER),
    RECHECK: (STREAM, RECOVERY),
}
"""What a session keeps when it comes to a state, if anything. The runner closes the rest, and cancels the timer."""


def _each(*rows: tuple[Action, tuple[State, ...]]) -> dict[State, Action]:
    pairs = [(state, action) for action, states in rows for state in states]
    assert len(dict(pairs)) == len(pairs), "a state in two rows"
    return dict(pairs)


TRANSITIONS: Mapping[On | type[Event], Mapping[State, Action]] = {
    On.BEGIN: {QUEUED: start.queue},
    Resume: {QUEUED: do.resume},
    On.SLOT_GRANTED: {QUEUED: start.begin_try},
    On.WORKER_READY: _each(
        (start.queue, (WAITING,)),
        (do.stay, (QUEUED, BACKOFF, STARTING, FINDING, *WITH_COMMAND, RECOVERING, *ENDING, *OVER)),
    ),
    WorkerEnded: _each(
        (start.worker_ended_at_start, (STARTING,)),
        (start.not_found, (FINDING,)),
        (do.worker_ended, (*WITH_COMMAND, RECOVERING)),
        (do.worker_ended_at_end, ENDING),
        (do.stay, (*NOT_REQUESTED, *OVER)),
    ),
    On.TIMEOUT: _each(
        (start.wait, (WAITING,)),
        (start.queue, (BACKOFF,)),
        (start.start_timed_out, (STARTING,)),
        (start.not_found, (FINDING,)),
        (do.tell_pid, (RUNNING,)),
        (do.flushed, (FLUSHING,)),
        (do.reap, (GRACE, RECHECK)),
    ),
    Acknowledged: _each(
        (do.acknowledged, (STARTING,)),
        (do.acknowledged_late, ENDING),
    ),
    On.OUTPUT: _each(
        (do.expect_more, (FLUSHING,)),
        (do.stay, (STARTING, RUNNING, STALLED, *ENDING)),
    ),
    On.STALLED: _each(
        (do.stall, (RUNNING,)),
        (do.stay, (STARTING, STALLED, FLUSHING, *ENDING)),
    ),
    StreamEnded: _each(
        (start.start_ended, (STARTING,)),
        (do.stream_ended, WITH_COMMAND),
        (do.ending_stream_ended, ENDING),
    ),
    On.ALIVE: _each(
        (start.found, (FINDING,)),
        (do.stay, (STALLED, RECOVERING, *ENDING)),
    ),
    ExitRecovered: _each(
        (start.found_ended, (FINDING,)),
        (do.recovered, (RECOVERING,)),
        (do.recovered_at_stall, (STALLED,)),
        (do.recovered_at_end, ENDING),
    ),
    Reaped: {REAPING: do.reaped},
    On.DRAINED: _each(
        (do.resume_stream, (STARTING, RUNNING, STALLED, *ENDING)),
        (do.expect_more, (FLUSHING,)),
        (do.end, (DRAINING,)),
        (do.stay, (*NOT_REQUESTED, FINDING, RECOVERING, ENDED)),  # a broken stderr is reported a little later
    ),
    On.STDOUT_CLOSED: _each(
        (do.stdout_closed, (*NOT_REQUESTED, STARTING, FINDING, *WITH_COMMAND, RECOVERING)),
        (do.stdout_closed_at_end, (DRAINING,)),
        (do.stay, (*ENDING, ENDED)),
    ),
    PassSignal: _each(
        (start.hold_signal, (*NOT_REQUESTED, STARTING, FINDING)),
        (do.pass_signal, (*WITH_COMMAND, RECOVERING)),
        (do.stay, (*ENDING, *OVER)),
    ),
    Stop: _each(
        (do.stop, (*NOT_REQUESTED, STARTING, FINDING, *WITH_COMMAND, RECOVERING, DRAINING)),
        (do.stay, (*ENDING, ENDED)),
    ),
    On.LEAVE: _each(
        (do.end, (*NOT_REQUESTED, STARTING, FINDING, *WITH_COMMAND, RECOVERING, *ENDING, DRAINING)),
        (do.stay, (ENDED,)),
    ),
    On.ABANDON: _each(
        (do.abandon, (*NOT_REQUESTED, STARTING, FINDING, *WITH_COMMAND, RECOVERING)),
        (do.abandon_at_end, ENDING),
        (do.stdout_closed_at_end, (DRAINING,)),  # else its reader's end ends it
        (do.stay, (ENDED,)),
    ),
}


def step(facts: Facts, event: Event, seen: View) -> tuple[Effect, ...]:
    """Take an event: change the facts, the state among them, and return what to do, in order."""
    kind = event if isinstance(event, On) else type(event)
    facts.state, effects = TRANSITIONS[kind].get(facts.state, do.never)(facts, event, seen)
    return effects
