"""The work queue: nothing is lost, nothing is worked on twice at once, and only failures wait longer each time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from clocks import Clock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.operator.queue import Queue

KEYS = st.sampled_from("abc")


def queue(clock: Clock | None = None, chance: float = 1.0) -> Queue[str]:
    return Queue(clock or Clock(), lambda: chance)


class AgainstModel(RuleBasedStateMachine):
    """Beside a model: which keys are wanted, since when (`due`), and which are being worked on."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = queue(self.clock)
        self.due: dict[str, float] = {}
        self.wanted: set[str] = set()
        self.working: set[str] = set()

    def pass_due(self) -> None:
        for key in [key for key, due in self.due.items() if due <= self.clock.now]:
            del self.due[key]
            self.wanted.add(key)

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.wanted.add(key)

    @rule(key=KEYS, delay_s=st.sampled_from([0.0, 1.0, 2.0, 5.0]))
    def add_after(self, key: str, delay_s: float) -> None:
        self.queue.add_after(key, delay_s)
        if delay_s == 0:
            self.wanted.add(key)
        else:
            self.due[key] = min(self.due.get(key, float("inf")), self.clock.now + delay_s)

    @rule(passed_s=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, passed_s: float) -> None:
        self.clock.now += passed_s
        self.pass_due()

    @precondition(lambda self: self.wanted - self.working)
    @rule()
    def get(self) -> None:
        key = self.queue.get(0)
        assert key in self.wanted - self.working
        self.wanted.discard(key)
        self.working.add(key)

    @precondition(lambda self: not self.wanted - self.working)
    @rule()
    def get_nothing(self) -> None:
        assert self.queue.get(0) is None

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.discard(key)

    @invariant()
    def depth(self) -> None:
        assert len(self.queue) == len(self.wanted)


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=200, stateful_step_count=30)


def test_failures_wait_longer_each_time_up_to_a_minute() -> None:
    clock = Clock()
    one = queue(clock)
    waits = []
    for _ in range(13):
        waits.append(one.retry("a"))
        clock.now += 1000
        assert one.get(0) == "a"
        one.done("a")
    assert waits[:4] == [0.05, 0.1, 0.2, 0.4]
    assert waits[-1] == 60
    one.forget("a")
    assert one.retry("a") == 0.05


@pytest.mark.parametrize(("chance", "wait_s"), [(0.0, 0.025), (0.5, 0.0375), (1.0, 0.05)])
def test_failures_of_many_do_not_come_back_together(chance: float, wait_s: float) -> None:
    assert queue(chance=chance).retry("a") == pytest.approx(wait_s)


def test_many_failures_overflow_nothing() -> None:
    one = queue()
    assert [one.retry("a") for _ in range(3000)][-1] == 60


def test_an_event_does_not_wait_for_a_failure_s_time() -> None:
    one = queue()
    one.retry("a")
    one.add("a")
    assert one.get(0) == "a"


def test_closing_wakes_all_and_gives_out_nothing_more() -> None:
    one: Queue[str] = Queue()
    got: list[str | None] = []
    threads = [threading.Thread(target=lambda: got.append(one.get())) for _ in range(3)]
    for thread in threads:
        thread.start()
    one.close()
    for thread in threads:
        thread.join(20)
    assert got == [None, None, None]
    one.add("a")
    one.add_after("b", 1)
    assert one.get() is None


def test_a_key_that_is_due_later_wakes_who_waits() -> None:
    one: Queue[str] = Queue()
    got: list[str | None] = []
    thread = threading.Thread(target=lambda: got.append(one.get(20)))
    thread.start()
    one.add_after("a", 0.01)
    thread.join(20)
    assert got == ["a"]


def test_waiting_has_an_end() -> None:
    one: Queue[str] = Queue()
    one.add_after("a", 1000)
    assert one.get(0.001) is None


def test_a_deadline_further_away_than_a_thread_can_wait_holds_up_nobody() -> None:
    """activeDeadlineSeconds is a number of 64 bits: by one such job all workers of the operator had ended."""
    looked = threading.Event()  # at the clock: what comes now waits until `get` waits, and gives up the lock

    def clock() -> float:
        looked.set()
        return 0.0

    one: Queue[str] = Queue(clock)
    one.add_after("a", 2.0**63)
    looked.clear()
    with ThreadPoolExecutor(1) as worker:
        got = worker.submit(one.get)
        assert looked.wait(20)
        one.add("b")
        assert got.result(20) == "b"


def test_many_workers_lose_no_key_and_share_none() -> None:
    one: Queue[int] = Queue()
    working: set[int] = set()
    seen: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        while (key := one.get()) is not None:
            with lock:
                assert key not in working
                working.add(key)
            with lock:
                seen.append(key)
                working.discard(key)
            one.done(key)
            with lock:
                if len(set(seen)) == 50:
                    one.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(50):
        one.add(number)
        one.add_after(number, 0.001)
    for thread in threads:
        thread.join(20)
    assert set(seen) == set(range(50))


def by_turns() -> Queue[str]:
    """Keys of a letter take turns with those of other letters, and those with an L are large."""
    return Queue(Clock(), turn=lambda key: key[0], is_large=lambda key: "L" in key)


def taken(one: Queue[str]) -> list[str]:
    return list(iter(lambda: one.get(0) or "", ""))


def test_who_has_many_keys_waits_behind_who_has_few() -> None:
    one = by_turns()
    for key in ("a1", "a2", "a3", "b1", "c1", "c2"):
        one.add(key)
    assert taken(one) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_of_large_ones_one_is_worked_on_at_a_time_and_holds_up_no_small_one() -> None:
    one = by_turns()
    for key in ("aL1", "aL2", "aL3", "bL1", "b1", "a1"):
        one.add(key)
    assert taken(one) == ["aL1", "b1", "a1"]
    one.add("c1")
    assert taken(one) == ["c1"]
    for done, after in (("aL1", "bL1"), ("bL1", "aL2"), ("aL2", "aL3")):
        one.done(done)
        assert taken(one) == [after]
    assert len(one) == 0


def test_a_single_worker_has_time_for_large_and_small_ones() -> None:
    one, order = by_turns(), list[str]()
    for key in ("aL1", "aL2", "a1", "a2", "a3"):
        one.add(key)
    while (taken := one.get(0)) is not None:
        order.append(taken)
        one.done(taken)
    assert order == ["aL1", "a1", "aL2", "a2", "a3"]


def test_the_end_of_a_large_one_wakes_who_waits_for_its_place() -> None:
    one: Queue[str] = Queue(is_large=lambda _key: True)
    one.add("first")
    one.add("next")
    assert one.get() == "first"
    got: list[str | None] = []
    waiting = threading.Thread(target=lambda: got.append(one.get()))
    waiting.start()
    one.done("first")
    waiting.join(20)
    assert got == ["next"]
