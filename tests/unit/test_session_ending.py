"""A launch that nobody wants any more: what it ends in the worker, when it looks again, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted_exec import GRACE_S, Bench, benches, pod

from rshagent.session.events import State
from rshagent.stream.status import Exited, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECOND_LOOK_S = 1.0
TERM, INT, KILLED_BY = 15, 2, 128


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield from benches(monkeypatch)


def test_a_made_up_success_within_the_grace_is_not_the_end(bench: Bench) -> None:
    start = bench.run()
    bench.session.end(TERM)
    start.end(Exited(0))
    assert bench.ends == []
    bench.end_processes()
    assert bench.end[0] == KILLED_BY + TERM


@pytest.mark.parametrize("code", [0, 3])
def test_a_status_within_the_grace_is_the_end(bench: Bench, code: int) -> None:
    start = bench.run()
    start.is_confirmed = code == 0
    bench.session.end(TERM)
    start.end(Exited(code))
    assert bench.end == (KILLED_BY + TERM, "ended by SIGTERM")
    bench.wait(10)
    assert bench.execs == [start]


@pytest.mark.parametrize(
    ("number", "name", "end"),
    [
        (TERM, "TERM", (KILLED_BY + TERM, "ended by SIGTERM")),
        (INT, "INT", (KILLED_BY + INT, "ended by SIGINT")),
        (13, "TERM", (KILLED_BY + 13, "stdout was closed by its reader")),
        (None, "TERM", (255, "the client has died")),
    ],
)
def test_what_does_not_end_by_itself_is_ended(
    bench: Bench, number: int | None, name: str, end: tuple[int, str]
) -> None:
    start = bench.run()
    bench.session.end(number)
    bench.wait(GRACE_S - 0.4)
    assert bench.execs == [start]
    bench.wait(0.6)
    control = bench.reap(name)
    control.answer("left 2 2")
    assert bench.ends == []
    control.answer("left 0 0")
    assert bench.end == end
    assert start.is_closed
    assert (bench.session.facts.is_client_dead, bench.session.facts.signal) == (number is None, number)


def is_retried(bench: Bench) -> None:
    bench.lose()
    bench.ask().answer("gone")


WAYS: dict[str, Callable[[Bench], object]] = {
    "requested": lambda bench: bench.start().open(),
    "recovering": lambda bench: bench.run().end(),
    "stalled": lambda bench: bench.run().stall(),
    "finding": lambda bench: bench.lose(),
    "between two tries": is_retried,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_dead_client_ends_the_remote_command(bench: Bench, way: str) -> None:
    WAYS[way](bench)
    bench.session.end(None)
    bench.wait(GRACE_S + 0.2)
    bench.reap().answer("left 0 0")
    bench.wait(SECOND_LOOK_S + 0.2)
    if not bench.ends:
        bench.reap().answer("left 0 0")
    assert bench.end == (255, "the client has died")


def test_only_the_first_signal_counts(bench: Bench) -> None:
    bench.run()
    bench.session.end(INT)
    bench.session.end(TERM)
    bench.session.end(None)
    bench.end_processes("INT")
    assert bench.end == (KILLED_BY + INT, "ended by SIGINT")


@pytest.mark.parametrize("is_lost", [False, True])
def test_one_that_was_acknowledged_is_looked_for_once(bench: Bench, is_lost: bool) -> None:
    start = bench.start()
    start.open()
    bench.session.end(TERM)
    start.acknowledge()
    if is_lost:
        start.end()
    bench.end_processes()
    assert bench.end[0] == KILLED_BY + TERM
    assert len(bench.execs) == 2


def test_one_that_was_not_acknowledged_is_looked_for_twice(bench: Bench) -> None:
    start = bench.start()
    start.open()
    bench.session.end(TERM)
    bench.end_processes()
    bench.wait(SECOND_LOOK_S - 0.4)
    assert not start.is_closed, "its request may still come through"
    bench.wait(0.6)
    assert start.is_closed
    assert len(bench.execs) == 3
    bench.reap().answer("left 0 0")
    assert bench.end == (KILLED_BY + TERM, "ended by SIGTERM")
    bench.wait(10)
    assert (len(bench.ends), len(bench.execs)) == (1, 3)


def test_a_status_before_the_second_look_spares_it(bench: Bench) -> None:
    start = bench.start()
    start.open()
    bench.session.end(TERM)
    bench.end_processes()
    start.end(Exited(1))
    assert bench.end[0] == KILLED_BY + TERM
    bench.wait(10)
    assert len(bench.execs) == 2


@pytest.mark.parametrize("outcome", [None, Failure("forbidden", retryable=False)])
def test_a_stream_that_is_lost_in_the_grace_tells_nothing(bench: Bench, outcome: Failure | None) -> None:
    start = bench.start()
    start.open()
    bench.session.end(TERM)
    start.end(outcome)
    bench.end_processes()
    assert bench.end[0] == KILLED_BY + TERM
    assert len(bench.execs) == 2, "there is no stream any more that could still start it"


def test_a_status_while_its_processes_are_ended_is_not_the_end(bench: Bench) -> None:
    start = bench.run()
    bench.session.end(TERM)
    bench.wait(GRACE_S)
    control = bench.reap()
    start.end(Exited(1))
    assert bench.ends == [], "daemons of its may be left"
    control.answer("left 0 0")
    assert len(bench.ends) == 1


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_processes_that_can_not_be_ended_are_told_of(bench: Bench, is_acknowledged: bool) -> None:
    start = bench.start()
    start.open()
    if is_acknowledged:
        start.acknowledge()
    bench.session.end(TERM)
    bench.wait(GRACE_S)
    bench.reap().end(Failure("exec is forbidden", retryable=False))
    assert bench.end == (
        KILLED_BY + TERM,
        "ended by SIGTERM; its processes could not be ended: exec is forbidden",
    )


def test_one_that_is_settled_is_not_asked_for_any_more(bench: Bench) -> None:
    bench.run().end()
    control = bench.ask()
    control.answer("alive")
    bench.session.end(TERM)
    assert control.is_closed
    bench.end_processes()
    assert bench.end == (KILLED_BY + TERM, "ended by SIGTERM")


def test_one_that_ends_leaves_its_place_to_the_next_start(bench: Bench) -> None:
    bench.start()
    assert bench.engine.limiter.inside == {bench.session}
    bench.session.end(TERM)
    assert bench.engine.limiter.inside == set()
    bench.wait(GRACE_S)


def test_a_worker_that_goes_is_the_end(bench: Bench) -> None:
    bench.engine.pods = {"worker-0": pod("1")}
    bench.run()
    bench.session.end(TERM)
    bench.wait(GRACE_S)
    control = bench.reap()
    bench.engine.pods = {}
    bench.engine.pod_changed("worker-0")
    bench.wait(2)
    assert bench.end == (KILLED_BY + TERM, "ended by SIGTERM")
    assert control.is_closed


def test_no_timer_outlives_the_session(bench: Bench) -> None:
    bench.engine.pods = {"worker-0": pod("1")}
    start = bench.run()
    bench.engine.pods = {}
    bench.engine.pod_changed("worker-0")
    assert bench.loop.pending
    start.end(Exited(3))
    assert bench.end == (3, "")
    assert not bench.loop.pending


def test_one_that_is_left_ends_with_the_code_it_was_told(bench: Bench) -> None:
    bench.run()
    bench.session.end(TERM, 25)
    assert bench.ends == []
    bench.session.leave()
    assert bench.end == (KILLED_BY + TERM, "ended by SIGTERM")


def test_one_that_was_not_asked_for_has_nothing_to_end(bench: Bench) -> None:
    bench.engine.pods = {}
    bench.session.start(b"true")
    assert bench.session.facts.state is State.WAITING
    bench.session.end(TERM)
    assert bench.end == (KILLED_BY + TERM, "ended by SIGTERM")
    assert bench.execs == []


def test_one_whose_client_has_died_when_it_is_told_is_not_requested(bench: Bench) -> None:
    bench.session.on_requested = lambda session: session.end(None)
    bench.session.start(b"true")
    assert bench.execs == []
    bench.end_processes()
    assert (bench.end[0], bench.starts) == (255, 0)


def test_one_between_two_tries_may_run_and_has_no_grace(bench: Bench) -> None:
    is_retried(bench)
    assert bench.session.facts.state is State.BACKOFF
    bench.session.end(TERM)
    bench.wait(0.2)
    bench.reap().answer("left 0 0")
    assert bench.end[0] == KILLED_BY + TERM
    assert bench.starts == 1


def test_one_that_is_given_up_is_ended_if_a_try_may_have_started_it(bench: Bench) -> None:
    is_retried(bench)
    while bench.starts == 1:
        bench.wait(0.2)
    bench.execs[-1].end(Failure("exec is refused", retryable=False))
    assert bench.ends == []
    bench.wait(0.2)
    bench.reap().answer("left 0 0")
    assert bench.end == (255, "exec is refused (2 tries)")
    assert bench.said == "rshagent: worker-0: exec is refused (2 tries)\n"


def test_a_bug_on_the_way_to_its_end_ends_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub abandons what a failed call belongs to; the client must get its exit code all the same."""

    def fail(*_args: object) -> None:
        raise KeyError

    bench.loop.on_error = lambda call, _error: call.__self__.abandon()  # type: ignore[attr-defined]
    bench.run()
    bench.session.end(TERM)
    monkeypatch.setattr("rshagent.session.parts.Reaper.__init__", fail)
    bench.wait(GRACE_S)
    assert len(bench.ends) == 1
