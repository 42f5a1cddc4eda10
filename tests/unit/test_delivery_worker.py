"""A wait for one worker's sshd: when its name is looked up, why it is not ready, when it is probed again."""

from __future__ import annotations

import pytest

from agents.common.not_ready import NotReady, Tolerance
from agents.common.ssh_probe import Outcome, Result
from delivery.sshd import worker as worker_module
from delivery.sshd.dns import Address, Found
from delivery.sshd.worker import Worker

HERE, THERE = Address(2, "10.0.0.7"), Address(2, "10.0.0.8")
NOWHERE = Found(())
DOWN = Found((), "Temporary failure in name resolution")
PORTS = (22, 2222)


def known(at: float = 0.0) -> Worker:
    """A worker that has an address since `at`."""
    worker = Worker("pi-worker-0.pi", 0.0)
    assert worker.found(Found((HERE,)), at) is None
    return worker


def reason(found: NotReady | None) -> NotReady:
    assert found is not None
    return found


def test_a_name_is_looked_up_until_it_has_an_address() -> None:
    worker = Worker("pi-worker-0.pi", 0.0)
    assert worker.wants_look_up(0.0, 1)
    assert reason(worker.found(NOWHERE, 0.0)).message == "not in DNS yet"
    assert worker.wants_look_up(0.1, 1)
    assert worker.found(Found((HERE,)), 0.1) is None
    assert not worker.wants_look_up(0.2, 1)


@pytest.mark.parametrize(
    ("kind", "wanted"), [(Outcome.REFUSED, False), (Outcome.TIMED_OUT, True), (Outcome.UNREACHABLE, True)]
)
def test_an_address_at_which_nothing_is_may_be_a_former_pods(kind: Outcome, wanted: bool) -> None:
    worker = known()
    worker.answered(Result(kind, 22), PORTS, 0.1)
    assert worker.wants_look_up(0.2, 1) is wanted


def test_an_address_grows_old_sooner_at_first_and_where_few_are_waited_for() -> None:
    worker = known()
    worker.settle(worker.answered(Result(Outcome.REFUSED, 22), PORTS, 0.0), 0.0)
    assert not worker.wants_look_up(1.9, 1)
    assert worker.wants_look_up(2.0, 1)
    assert not worker.wants_look_up(2.0, 1000)
    worker.found(Found((HERE,)), 100.0)
    assert not worker.wants_look_up(109.0, 1)
    assert worker.wants_look_up(110.0, 1)


def test_an_address_is_kept_while_dns_is_down_and_given_up_when_dns_says_so() -> None:
    worker = known()
    assert worker.found(DOWN, 5.0) is None
    assert worker.addresses == (HERE,)
    gone = reason(worker.found(NOWHERE, 6.0))
    assert (gone.message, gone.tolerance) == ("gone from DNS", Tolerance.REPLACEMENT)
    assert "Temporary failure" in reason(worker.found(DOWN, 7.0)).detail


def test_another_address_is_another_pod() -> None:
    worker = known()
    before = worker.mark
    worker.found(Found((THERE, HERE)), 1.0)
    both = worker.mark
    worker.found(Found((HERE, THERE)), 2.0)  # DNS may turn them round
    assert before != both == worker.mark


def test_pauses_begin_anew_with_what_is_lacking() -> None:
    worker = known()
    refused = worker.answered(Result(Outcome.REFUSED, 22), PORTS, 0.0)
    worker.settle(refused, 0.0)
    worker.settle(refused, 20.0)
    assert worker.pause_s(20.0, 1) > 0.5
    assert worker.connect_s(20.0) == 4
    worker.settle(worker.answered(Result(Outcome.BUSY, 22, "Exceeded MaxStartups"), PORTS, 20.0), 20.0)
    assert worker.pause_s(20.0, 1) == 0.05
    assert worker.connect_s(20.0) == 0.5


def test_who_lacks_the_same_for_a_minute_is_told_where_to_look() -> None:
    worker = known()
    worker.settle(worker.answered(Result(Outcome.REFUSED, 22), PORTS, 1.0), 1.0)
    assert reason(worker.answered(Result(Outcome.REFUSED, 22), PORTS, 60.9)).detail == ""
    assert "kubectl logs" in reason(worker.answered(Result(Outcome.REFUSED, 22), PORTS, 61.0)).detail


def test_an_answer_counts_for_a_second() -> None:
    worker = known()
    assert worker.is_doubted(0.0, 1)
    assert worker.answered(Result(Outcome.READY, 2222), PORTS, 1.0) is None
    assert worker.port == 2222
    assert not worker.is_doubted(1.9, 2)
    assert worker.is_doubted(2.0, 2)


def test_who_is_doubted_may_have_lost_its_name() -> None:
    worker = known()
    worker.answered(Result(Outcome.READY, 2222), PORTS, 1.0)
    assert not worker.wants_look_up(1.5, 0)
    assert worker.is_doubted(2.0, 2)
    assert worker.wants_look_up(2.0, 0)
    assert not worker.wants_address(2.0)  # first whether the name is there, as nobody remembers an answer to that
    assert reason(worker.is_missing(2.0)).kind
    assert not worker.addresses


def test_who_is_doubted_and_still_there_is_doubted_no_more() -> None:
    worker = known()
    worker.answered(Result(Outcome.READY, 2222), PORTS, 1.0)
    assert worker.is_doubted(2.0, 2)
    assert worker.found(Found((Address(2, "10.0.0.1"),)), 2.0) is None
    assert not worker.wants_look_up(2.1, 0)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 1.0), (150, 1.0), (1500, 10.0)])
def test_all_can_be_doubted_and_looked_up_in_time(workers: int, seconds: float) -> None:
    assert worker_module.check_again_s(workers) == seconds
