"""What is said of a probe's result, and how often a worker is probed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common.not_ready import NotReady, Tolerance
from agents.common.ssh_probe import Outcome, Result
from delivery.exits import DeliveryError
from delivery.hostfile import hosts_in
from delivery.sshd import worker
from delivery.sshd.dns import Address, Found, look_up
from delivery.sshd.worker import Worker
from rshagent.call.hosts import Entry

REASONS: dict[str, tuple[NotReady | None, str, Tolerance]] = {
    "not in DNS": (worker.no_name(0, was_there=False), "not in DNS yet", Tolerance.UNLIMITED),
    "gone": (worker.no_name(0, was_there=True), "gone from DNS", Tolerance.REPLACEMENT),
    "DNS says nothing": (
        worker.no_lookup("Temporary failure in name resolution", 4.9),
        "not in DNS yet",
        Tolerance.UNLIMITED,
    ),
    "DNS says nothing for long": (
        worker.no_lookup("Temporary failure in name resolution", 5.0),
        "not in DNS yet: DNS gives no answer (Temporary failure in name resolution)",
        Tolerance.UNLIMITED,
    ),
    "refused": (
        worker.why_not_ready(Result(Outcome.REFUSED, 22), [22], 0),
        "not listening on port 22 yet",
        Tolerance.UNLIMITED,
    ),
    "refused for long": (
        worker.why_not_ready(Result(Outcome.REFUSED, 22), [22, 2222], 61),
        "not listening on ports 22 and 2222 yet: its image, its init containers or its sshd: see `kubectl describe pod`"
        " and `kubectl logs`",
        Tolerance.UNLIMITED,
    ),
    "no route": (
        worker.why_not_ready(Result(Outcome.UNREACHABLE, 22, "No route to host"), [22], 0),
        "not reachable: No route to host",
        Tolerance.GRACE,
    ),
    "dropped": (
        worker.why_not_ready(Result(Outcome.TIMED_OUT, 22), [22, 2222, 2200], 0),
        "not answering on ports 22, 2222 and 2200: connections time out",
        Tolerance.GRACE,
    ),
    "silent": (
        worker.why_not_ready(Result(Outcome.SILENT, 2222), [2222], 0),
        "silent on port 2222: something other than sshd listens there, or sshd hangs",
        Tolerance.GRACE,
    ),
    "closed": (
        worker.why_not_ready(Result(Outcome.CLOSED, 2222), [2222], 0),
        "closing connections to port 2222: without an ssh banner",
        Tolerance.GRACE,
    ),
    "something else": (
        worker.why_not_ready(Result(Outcome.NOT_SSH, 2222, "HTTP/1.1 400"), [22, 2222], 0),
        'no sshd on port 2222: what listens there says "HTTP/1.1 400"',
        Tolerance.GRACE,
    ),
    "overloaded": (
        worker.why_not_ready(Result(Outcome.BUSY, 2222, "Exceeded MaxStartups"), [2222], 0),
        'turning connections to port 2222 away: sshd says "Exceeded MaxStartups"',
        Tolerance.GRACE,
    ),
}


@pytest.mark.parametrize(("reason", "text", "tolerance"), REASONS.values(), ids=REASONS)
def test_each_reason_in_words(reason: NotReady | None, text: str, tolerance: Tolerance) -> None:
    assert reason is not None
    assert (f"{reason.message}: {reason.detail}" if reason.detail else reason.message) == text
    assert reason.tolerance is tolerance
    assert reason.hint or tolerance is Tolerance.UNLIMITED  # what ends the wait says what to do


def test_every_answer_has_its_words_and_a_ready_one_none() -> None:
    lacking = {kind for kind in Outcome if worker.why_not_ready(Result(kind, 22), [22], 0) is not None}
    assert lacking == set(Outcome) - {Outcome.READY}


def one(*, has_address: bool) -> Worker:
    """A worker that is not ready since 0 s."""
    made = Worker("pi-worker-0.pi", 0.0)
    made.found(Found((Address(2, "10.0.0.7"),) if has_address else ()), 0.0)
    return made


def test_few_workers_are_seen_within_a_tenth_of_a_second_at_first() -> None:
    assert one(has_address=True).pause_s(0, 2) == 0.05
    assert one(has_address=True).pause_s(3, 2) < 0.1
    assert one(has_address=True).pause_s(3, 64) < 0.1


@given(st.floats(0, 1e6), st.integers(1, 5000), st.booleans())
def test_pauses_grow_and_are_bounded(waited_s: float, waiting: int, has_address: bool) -> None:
    made = one(has_address=has_address)
    pause = made.pause_s(waited_s, waiting)
    assert 0.05 <= pause <= max(1.0, waiting / 300)
    assert pause <= made.pause_s(waited_s + 1, waiting)
    assert waiting / pause <= 1500.1
    assert 0.5 <= made.connect_s(waited_s) <= 4


@given(st.floats(0, 1e6), st.integers(1, 5000))
def test_an_address_is_looked_up_again_in_time(age_s: float, waiting: int) -> None:
    is_due = one(has_address=True).wants_look_up(age_s, waiting)
    assert not is_due or age_s >= 2
    assert is_due or age_s < max(10, waiting / 300)


def test_looking_up() -> None:
    assert [address.host for address in look_up("127.0.0.7").addresses] == ["127.0.0.7"]
    (address,) = look_up("::1").addresses
    assert (address.host, address.rest) == ("::1", (0, 0))
    assert look_up("localhost").addresses


@pytest.mark.parametrize("name", ["pi-worker-0.invalid", "x" * 64 + ".invalid", "ä"])
def test_names_that_are_not_there(name: str) -> None:
    assert look_up(name).addresses == ()


def test_ssh_knows_no_namespaces() -> None:
    assert hosts_in(None, [Entry("Pi-Worker-0.pi")]) == ["pi-worker-0.pi"]
    with pytest.raises(DeliveryError, match="which is not a host name for ssh"):
        hosts_in(None, [Entry("pi-worker-0", namespace="science")])
