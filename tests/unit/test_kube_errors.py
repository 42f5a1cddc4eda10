"""What an answer's status, body and headers say that the caller is to do, and what a failure before it is."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from agents.kube.access import Access
from agents.kube.api import Api
from agents.kube.errors import RejectedError, TooManyError, UnavailableError, from_status


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


@pytest.mark.parametrize(
    "message",
    [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3000000 vs. 2097152)",
    ],
)
def test_what_etcd_takes_for_too_large_is_no_outage(message: str) -> None:
    assert isinstance(from_status(500, {"message": message}), RejectedError)


def test_of_a_long_message_no_more_is_kept_than_tells_what_it_is() -> None:
    found = str(from_status(422, {"message": 'Pod "pi" is invalid: ' + "x" * 5_000_000}))
    assert found.startswith('Pod "pi" is invalid: ')
    assert len(found) < 10_000


@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), ConfigException("Token file exists but empty.")])
def test_a_token_that_can_t_be_read_is_a_request_that_failed(fault: Exception) -> None:
    """As any other it is tried again: the threads that watch and renew the lease take nothing else."""

    def renew(_configuration: Any) -> None:
        raise fault

    configuration = Configuration(host="https://127.0.0.1:1")
    configuration.api_key["BearerToken"] = "bearer one"
    configuration.refresh_api_key_hook = renew
    api = Api(Access(configuration, 1), agent="mpi-operator", manager="mpi-agents")
    with pytest.raises(UnavailableError, match=r"the token can't be read: .*(Too many|empty)"):
        api.get("/apis")
    with pytest.raises(UnavailableError):
        api.watch("/api/v1/pods", version="1", timeout_s=1)
