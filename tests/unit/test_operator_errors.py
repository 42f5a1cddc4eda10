"""What an answer's status, body and headers say that the caller is to do."""

from __future__ import annotations

import pytest

from agents.operator.errors import TooManyError, UnavailableError, from_status


@pytest.mark.parametrize(
    ("given", "waits_s"),
    [("1", 1.0), ("60", 60.0), ("86400", 60.0), ("9" * 400, 60.0), ("Wed, 21 Oct", None), ("²", None)],
)
def test_how_long_to_wait_is_the_server_s_to_say_within_limits(given: str, waits_s: float | None) -> None:
    """Who watches would be blind for as long as that."""
    assert from_status(429, {}, given).retry_after_s == waits_s


def test_an_outage_that_says_when_to_come_back_is_asked_then() -> None:
    assert isinstance(from_status(503, None, "5"), TooManyError)
    assert isinstance(from_status(503, None), UnavailableError)
