"""The state machine of a session: every event in every state, the start's decisions, and what holds on every path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_exec import pod

from rshagent.session import transitions
from rshagent.session.engine import DEFAULT_LIMITS
from rshagent.session.events import (
    Acknowledged,
    Do,
    Event,
    ExitRecovered,
    On,
    PassSignal,
    Reap,
    Reaped,
    ReportRetry,
    Resume,
    Say,
    SetTimer,
    State,
    Stop,
    StreamEnded,
    UseContainer,
    WorkerEnded,
)
from rshagent.session.facts import Facts, Observed
from rshagent.session.machine import ENDING, HOLDS, RECOVERY, SLOT, STREAM, TRANSITIONS, step
from rshagent.stream.status import Exited, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1000.0
KINDS: list[object] = [*On, *(kind for kind in get_args(Event) if kind is not On)]
REFUSED = Failure("exec is refused", retryable=False)
CHOICE = Failure("a container name must be specified, choose one of: [main side]", retryable=False, http_status=400)


def facts(state: State) -> Facts:
    made = Facts(NOW, DEFAULT_LIMITS)
    made.state = state
    made.tries.begin(NOW, DEFAULT_LIMITS["start"])
    return made


def test_every_event_is_decided_in_every_state() -> None:
    assert set(TRANSITIONS) == set(KINDS)
    for kind in TRANSITIONS:
        assert set(TRANSITIONS[kind]) == set(State), kind
    assert set(HOLDS) == set(State)


# What was known when the stream of a start was lost: may_run, has_command, reads_stdin.
FINDABLE = (True, True, False)
NOT_FINDABLE = [(False, True, False), (True, False, False), (True, True, True), (False, False, True)]


def start_ended(
    outcome: Exited | Failure | None, known: tuple[bool, bool, bool] = FINDABLE, *, names_container: bool = False
) -> tuple[Facts, tuple[object, ...]]:
    made = facts(State.STARTING)
    may_run, has_command, reads_stdin = known
    seen = Observed(
        NOW, may_run=may_run, has_command=has_command, reads_stdin=reads_stdin, names_container=names_container
    )
    return made, step(made, StreamEnded(outcome, "the stream was lost"), seen)


@pytest.mark.parametrize("known", [FINDABLE, *NOT_FINDABLE])
@pytest.mark.parametrize("code", [1, 2, 127, 255])
def test_a_shell_that_ended_before_the_acknowledgement_is_the_end(code: int, known: tuple[bool, bool, bool]) -> None:
    made, effects = start_ended(Exited(code), known)
    assert made.state is State.DRAINING
    assert (made.code, made.reason) == (code, f"the command did not start (its shell ended with {code})")
    assert effects == (Say(made.reason), Do.TRACE, Do.DRAIN)


@pytest.mark.parametrize("outcome", [None, Exited(0)], ids=["lost", "made-up success"])
def test_a_lost_stream_is_asked_for_if_the_command_may_run(outcome: Exited | None) -> None:
    made, effects = start_ended(outcome)
    assert (made.state, made.may_run) == (State.FINDING, True)
    assert effects == (SetTimer(DEFAULT_LIMITS["start"]), Do.ASK_WORKER)


@pytest.mark.parametrize("known", NOT_FINDABLE)
def test_a_lost_stream_is_a_failed_try_if_it_can_not_run_or_lost_its_input(known: tuple[bool, bool, bool]) -> None:
    made, effects = start_ended(None, known)
    assert (made.state, made.may_run, made.retries) == (State.BACKOFF, known[0], 1)
    assert ReportRetry("the stream was lost") in effects
    assert (Do.END_CLEANUP in effects) is not known[0]


def test_a_start_that_is_given_up_closes_its_stream() -> None:
    made = facts(State.STARTING)
    later = NOW + DEFAULT_LIMITS["start"]
    effects = step(made, On.TIMEOUT, Observed(later, may_run=True, reads_stdin=True, has_stream=True))
    assert made.state is State.GRACE
    assert effects[0] is Do.CLOSE_STREAM


def test_a_session_with_a_start_slot_asks_for_no_other() -> None:
    made = facts(State.QUEUED)
    made.limits = DEFAULT_LIMITS | {"unready": 0.0}
    step(made, On.SLOT_GRANTED, Observed(NOW, pod=pod("1"), is_ready=False))
    assert made.state is State.STARTING


@pytest.mark.parametrize("known", [FINDABLE, *NOT_FINDABLE])
def test_what_the_server_says_is_the_failure(known: tuple[bool, bool, bool]) -> None:
    made, _ = start_ended(REFUSED, known)
    assert (made.state, made.code, made.reason) == (State.DRAINING, 255, REFUSED.message)
    made, effects = start_ended(Failure("too many requests", retryable=True, http_status=429), known)
    assert made.state is State.BACKOFF
    assert ReportRetry("too many requests") in effects


def test_the_first_container_is_asked_if_none_was_named() -> None:
    made, effects = start_ended(CHOICE)
    assert made.state is State.STARTING
    assert effects == (UseContainer("main"), Do.OPEN_STREAM, SetTimer(DEFAULT_LIMITS["acknowledge"]))
    made, _ = start_ended(CHOICE, names_container=True)
    assert (made.state, made.reason) == (State.DRAINING, CHOICE.message)


@pytest.mark.parametrize(
    ("outcome", "is_confirmed", "is_the_end"),
    [
        (Exited(0), True, True),
        (Exited(0), False, False),
        (Exited(3), False, True),
        (REFUSED, False, False),
        (None, False, False),
    ],
)
def test_a_success_is_believed_if_the_command_confirmed_it(
    outcome: Exited | Failure | None, is_confirmed: bool, is_the_end: bool
) -> None:
    made = facts(State.RUNNING)
    step(made, StreamEnded(outcome, "lost"), Observed(NOW, is_confirmed=is_confirmed))
    assert made.state is (State.DRAINING if is_the_end else State.RECOVERING)


class Run:
    """The machine and a runner that is not there: only what the session holds reports anything."""

    def __init__(self) -> None:
        self.now = NOW
        self.facts = Facts(NOW, DEFAULT_LIMITS)
        self.has_timer = self.has_slot = self.has_stream = self.has_recovery = self.has_reaper = False
        self.was_acknowledged = self.may_succeed = self.was_reaped = self.was_requested = False
        self.closes = 0
        self.take(On.BEGIN)

    @property
    def state(self) -> State:
        return self.facts.state

    def take(self, event: Event, **seen: Any) -> None:
        """Feed the machine an event, and check what must hold after each."""
        kind = event if isinstance(event, On) else type(event)
        assert TRANSITIONS[kind][self.state] is not transitions.never, (event, self.state)
        before = self.state
        if isinstance(event, StreamEnded):
            self.has_stream = False
            self.may_succeed |= event.outcome == CONFIRMED and seen.get("is_confirmed", False)
        self.may_succeed |= isinstance(event, ExitRecovered) and event.code == 0
        known = Observed(self.now, has_stream=self.has_stream, may_run=self.was_requested)
        effects = step(self.facts, event, known._replace(**seen))
        if self.state is not before:
            self.has_timer = self.has_reaper = False
            self.has_stream &= STREAM in HOLDS[self.state]
            self.has_recovery &= RECOVERY in HOLDS[self.state]
            self.has_slot &= SLOT in HOLDS[self.state]
        for effect in effects:
            self.perform(effect)
        self.check()

    def perform(self, effect: object) -> None:
        if effect is Do.OPEN_STREAM:
            assert not self.was_acknowledged, "an acknowledged start is never retried"
            self.has_stream = self.was_requested = True
        elif effect is Do.QUEUE:
            self.has_slot = True
        elif effect is Do.ASK_WORKER:
            self.has_recovery = True
        elif effect is Do.CLOSE_STREAM:
            self.has_stream = False
        elif effect is Do.CLOSE:
            self.closes += 1
        elif isinstance(effect, SetTimer):
            assert effect.seconds >= 0
            self.has_timer = True
        elif isinstance(effect, Reap):
            self.has_reaper = self.was_reaped = True

    def check(self) -> None:
        self.was_acknowledged |= bool(self.facts.acknowledged_at)
        held = self.has_timer or self.has_slot or self.has_stream or self.has_recovery or self.has_reaper
        assert self.closes == (self.state is State.ENDED), "the end is reported once"
        if self.state is State.ENDED:
            assert not held
            assert self.facts.code != 0 or self.may_succeed, "no exit status is no success"
        elif self.state is not State.DRAINING:
            assert held, f"nothing will ever happen in {self.state}"
        assert not (self.state in ENDING and self.facts.code == 0), "who is stopped has not succeeded"


CONFIRMED = Exited(0)
OUTCOMES = st.sampled_from([None, CONFIRMED, Exited(3), Exited(137), REFUSED, Failure("busy", retryable=True)])
Choice = tuple[Event, dict[str, bool]]
BOOLEANS = st.booleans()


def choices(run: Run) -> list[st.SearchStrategy[Choice]]:
    """What may happen next, by what the session holds."""

    def plain(*events: Event) -> st.SearchStrategy[Choice]:
        return st.sampled_from([(event, {}) for event in events])

    found = [
        plain(Stop(15, 1.0), Stop(None, 1.0), Stop(13, 0.0), PassSignal(10), On.WORKER_READY, On.STDOUT_CLOSED),
        plain(WorkerEnded("the pod is gone", 255)),
    ]
    if run.has_timer:
        found.append(st.builds(_timeout, BOOLEANS, BOOLEANS))
    if run.has_slot and run.state is State.QUEUED:
        found.append(st.builds(_slot, BOOLEANS, BOOLEANS))
    if run.has_stream:
        if not run.was_acknowledged:
            found.append(plain(Acknowledged(42), Acknowledged(0)))
        found += [plain(On.OUTPUT, On.STALLED, On.DRAINED), st.builds(_ended, OUTCOMES, BOOLEANS, BOOLEANS)]
    if run.has_recovery:
        found += [plain(On.ALIVE), st.builds(_recovered, st.sampled_from([None, 0, 3, 143]), BOOLEANS)]
    if run.has_reaper:
        found.append(plain(Reaped(""), Reaped("some are left")))
    if run.state is State.DRAINING:
        found.append(plain(On.DRAINED))
    return found


def _timeout(is_behind: bool, is_confirmed: bool) -> Choice:
    return On.TIMEOUT, {"is_behind": is_behind, "is_confirmed": is_confirmed}


def _slot(is_ready: bool, is_in_danger: bool) -> Choice:
    return On.SLOT_GRANTED, {"is_ready": is_ready, "is_in_danger": is_in_danger}


def _ended(outcome: Exited | Failure | None, is_confirmed: bool, has_command: bool) -> Choice:
    return StreamEnded(outcome, "lost"), {"is_confirmed": is_confirmed, "has_command": has_command}


def _recovered(code: int | None, is_silent: bool) -> Choice:
    recovered = ExitRecovered(code, "" if code is not None else "it ended in the worker")
    return recovered, {"is_silent": is_silent}


@given(st.data(), st.booleans())
def test_what_holds_on_every_path(data: st.DataObject, has_output: bool) -> None:
    run = Run()
    run.facts.has_output = has_output
    stopped = False
    for _ in range(data.draw(st.integers(1, 40))):
        if run.state is State.ENDED:
            break
        event, seen = data.draw(st.one_of(choices(run)))
        run.now += data.draw(st.sampled_from([0.0, 1.0, 30.0]))
        run.take(event, **seen)
        stopped |= isinstance(event, Stop)
    run.take(On.LEAVE)
    assert run.state is State.ENDED
    for event in (On.LEAVE, On.ABANDON, Stop(15, 1.0), On.STDOUT_CLOSED, PassSignal(10), On.WORKER_READY):
        run.take(event)
    assert run.closes == 1


def _requested(run: Run) -> None:
    run.take(On.SLOT_GRANTED)


def _running(run: Run) -> None:
    _requested(run)
    run.take(Acknowledged(42))


def _recovering(run: Run) -> None:
    _running(run)
    run.take(StreamEnded(None))


def _finding(run: Run) -> None:
    _requested(run)
    run.take(StreamEnded(None, "lost"))


def _stalled(run: Run) -> None:
    _running(run)
    run.take(On.STALLED)


def _flushing(run: Run) -> None:
    _stalled(run)
    run.take(ExitRecovered(0))


def _retrying(run: Run) -> None:
    _finding(run)
    run.take(ExitRecovered(None, "gone"))


@pytest.mark.parametrize("way", [_requested, _running, _recovering, _finding, _stalled, _flushing, _retrying])
def test_a_dead_client_ends_the_remote_command(way: Callable[[Run], None]) -> None:
    run = Run()
    way(run)
    run.take(Stop(None, 1.0))
    while not run.closes:
        assert run.state in ENDING
        run.take(Reaped("") if run.has_reaper else On.TIMEOUT)
    assert run.was_reaped
    assert (run.facts.code, run.facts.reason) == (255, "the client has died")


def test_a_session_of_an_earlier_hub_is_asked_for() -> None:
    made = facts(State.QUEUED)
    assert step(made, Resume(7), Observed(NOW)) == (Do.STOP_STDIN, Do.ASK_WORKER)
    assert (made.state, made.pid) == (State.RECOVERING, 7)
