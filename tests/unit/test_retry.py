"""Backoff: delays grow, differ, end growing, and never undercut the server's wish."""

from __future__ import annotations

import pytest

from rshagent.net.retry import Backoff


def test_each_delay_is_around_twice_the_one_before_and_at_most_about_five_seconds() -> None:
    for _ in range(20):
        backoff = Backoff()
        for base in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0):
            assert base * 0.5 <= backoff.delay_s() < base * 1.5
        assert backoff.tries == 9


def test_two_that_lost_the_same_server_do_not_come_back_together() -> None:
    assert len({Backoff().delay_s() for _ in range(50)}) > 45


@pytest.mark.parametrize(("wished_s", "least"), [(None, 0.05), (0.0, 0.05), (7.0, 7.0)])
def test_the_servers_wish_is_the_least(wished_s: float | None, least: float) -> None:
    assert Backoff().delay_s(wished_s) >= least


def test_a_wish_does_not_change_the_delays_after_it() -> None:
    backoff = Backoff()
    assert backoff.delay_s(60.0) == 60.0
    assert backoff.delay_s() < 0.3
