"""The limiter that starts go through, and the limits that can be set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_api import Authority, cluster_at

from agents.common.loop import Loop
from rshagent.net.cluster import ConfigError
from rshagent.session.engine import DEFAULT_LIMITS, Engine, StartLimiter, limits
from rshagent.session.target import ExecTarget

if TYPE_CHECKING:
    from pathlib import Path


def test_limits_are_the_default_ones_but_for_those_that_are_set() -> None:
    assert limits("") == DEFAULT_LIMITS
    assert limits("start=300, settle=0.5,") == DEFAULT_LIMITS | {"start": 300.0, "settle": 0.5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stat=3", "has no limit 'stat'; it has start, acknowledge, worker"),
        ("start", "the limit start in MPI_AGENT_LIMITS is not a number of seconds"),
        ("start=", "not a number"),
        ("start=soon", "not a number"),
        ("start=0", "not a number"),
        ("start=-1", "not a number"),
        ("start=nan", "not a number"),
        ("start=inf", "not a number"),
        ("start=1e9", "not a number"),
    ],
)
def test_a_limit_that_is_none_is_a_config_error(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        limits(text)


@given(st.text(max_size=30) | st.lists(st.sampled_from(["start", "ping", "=", ",", "1", "-", "."])).map("".join))
def test_any_text_is_limits_or_a_config_error(text: str) -> None:
    try:
        found = limits(text)
    except ConfigError:
        return
    assert found.keys() == DEFAULT_LIMITS.keys()
    assert all(0 < seconds < 1e9 for seconds in found.values())


def test_starts_wait_in_the_order_in_which_they_came() -> None:
    limiter, started = StartLimiter(2), list[int]()
    for number in range(5):
        limiter.enter(number, lambda number=number: started.append(number))  # type: ignore[misc]
    assert started == [0, 1]
    limiter.leave(1)
    assert started == [0, 1, 2]
    limiter.leave(3)  # gives up while it waits
    limiter.leave(7)  # was never there
    limiter.leave(0)
    assert started == [0, 1, 2, 4]


@given(limit=st.integers(1, 4), calls=st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_never_more_than_the_limit_and_nobody_waits_where_there_is_room(
    limit: int, calls: list[tuple[bool, int]]
) -> None:
    limiter, inside, waiting = StartLimiter(limit), set[int](), list[int]()

    def begin(who: int) -> None:
        inside.add(who)
        if who in waiting:
            assert waiting.pop(0) == who, "out of turn"

    for enters, who in calls:
        if enters and who not in inside and who not in waiting:
            if len(inside) >= limit:
                waiting.append(who)
            limiter.enter(who, lambda who=who: begin(who))  # type: ignore[misc]
        elif not enters:
            inside.discard(who)
            if who in waiting:
                waiting.remove(who)
            limiter.leave(who)
        assert limiter.inside == inside
        assert len(inside) <= limit
        assert not waiting or len(inside) == limit


def test_ten_thousand_that_leave_as_soon_as_they_are_let_in() -> None:
    """A worker that is not ready does that; all of a job's may be so at once."""
    limiter, turns = StartLimiter(1), list[int]()
    limiter.enter("first", lambda: None)

    def turn(number: int) -> None:
        turns.append(number)
        limiter.leave(number)

    for number in range(10_000):
        limiter.enter(number, lambda number=number: turn(number))  # type: ignore[misc]
    limiter.leave("first")
    assert turns == list(range(10_000))
    assert not limiter.inside


def test_a_start_that_fails_does_not_block_the_limiter() -> None:
    limiter, started = StartLimiter(1), list[str]()

    def fail() -> None:
        raise KeyError("a bug")

    limiter.enter("first", lambda: None)
    limiter.enter("buggy", fail)
    limiter.enter("next", lambda: started.append("next"))
    with pytest.raises(KeyError):
        limiter.leave("first")
    limiter.leave("buggy")
    assert started == ["next"]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    authority = Authority(tmp_path)
    return Engine(Loop(), cluster_at(443, authority.path), launcher="launcher", limits_text="start=7")


def test_what_an_engine_knows(engine: Engine) -> None:
    assert engine.limits["start"] == 7
    assert engine.watched("default") is None, "there is no watch yet"
    engine.pods = {}
    assert engine.watched("default") == {}
    assert engine.watched("elsewhere") is None


def test_a_worker_is_swept_once_for_each_run_of_the_launcher(engine: Engine) -> None:
    def is_swept(pod: str, run: str) -> bool:
        return engine.begin_cleanup("a session", ExecTarget("default", pod, None), run, "") is not None

    assert is_swept("worker-0", "run-1")
    engine.swept("worker-0", "run-1")
    assert not is_swept("worker-0", "run-1")
    assert is_swept("worker-0", "run-2")
    assert is_swept("worker-1", "run-1")
