"""The state machine of a session: what a start decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast, get_args

import pytest
from scripted_exec import pod

from rshagent.session.engine import DEFAULT_LIMITS
from rshagent.session.events import (
    Do,
    Event,
    On,
    ReportRetry,
    Resume,
    Say,
    SetTimer,
    State,
    StreamEnded,
    UseContainer,
)
from rshagent.session.facts import Facts
from rshagent.session.machine import TRANSITIONS, step
from rshagent.stream.status import Exited, Failure

if TYPE_CHECKING:
    from rshagent.session.view import View

NOW = 1000.0
KINDS: list[object] = [*On, *(kind for kind in get_args(Event) if kind is not On)]
REFUSED = Failure("exec is refused", retryable=False)
CHOICE = Failure("a container name must be specified, choose one of: [main side]", retryable=False, http_status=400)


def facts(state: State) -> Facts:
    made = Facts(NOW, DEFAULT_LIMITS)
    made.state = state
    made.tries.begin(NOW, DEFAULT_LIMITS["start"])
    return made


SEEN = {"is_ready": True, "finds_workers": False, "has_command": True, "container": "main", "sent": ()}
UNSEEN = dict.fromkeys(("pod", "is_in_danger", "stream", "may_run", "is_confirmed", "reads_stdin"))


def seen(now: float = NOW, **known: object) -> View:
    """What a session sees, in one: as far as it is not said, no stream."""
    view = SimpleNamespace(**{**UNSEEN, **SEEN, **known, "now": now})
    view.target = view.wire = view.stdio = view.parts = view
    return cast("View", view)


def test_every_event_is_known() -> None:
    assert set(TRANSITIONS) == set(KINDS)


# What was known when the stream of a start was lost: may_run, has_command, reads_stdin.
FINDABLE = (True, True, False)
NOT_FINDABLE = [(False, True, False), (True, False, False), (True, True, True), (False, False, True)]


def start_ended(
    outcome: Exited | Failure | None, known: tuple[bool, bool, bool] = FINDABLE, *, names_container: bool = False
) -> tuple[Facts, tuple[object, ...]]:
    made = facts(State.STARTING)
    may_run, has_command, reads_stdin = known
    view = seen(
        may_run=may_run, has_command=has_command, reads_stdin=reads_stdin, container="main" if names_container else None
    )
    return made, step(made, StreamEnded(outcome, "the stream was lost"), view)


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
    effects = step(made, On.TIMEOUT, seen(later, may_run=True, reads_stdin=True))
    assert made.state is State.GRACE
    assert effects[0] is Do.CLOSE_STREAM


def test_a_session_with_a_start_slot_asks_for_no_other() -> None:
    made = facts(State.QUEUED)
    made.limits = DEFAULT_LIMITS | {"unready": 0.0}
    step(made, On.SLOT_GRANTED, seen(pod=pod("1"), is_ready=False))
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
    step(made, StreamEnded(outcome, "lost"), seen(is_confirmed=is_confirmed))
    assert made.state is (State.DRAINING if is_the_end else State.RECOVERING)


def test_a_session_of_an_earlier_hub_is_asked_for() -> None:
    made = facts(State.QUEUED)
    assert step(made, Resume(7), seen()) == (Do.STOP_STDIN, Do.ASK_WORKER)
    assert (made.state, made.pid) == (State.RECOVERING, 7)
