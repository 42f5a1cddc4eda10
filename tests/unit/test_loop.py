"""The loop: order and time of its calls, on a clock that the test moves, and signals in a process of its own."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from clocks import Clock

from agents.common.loop import READ, WRITE, Loop, Timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEADLINE_S = 20


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    yield read_end, write_end
    for fd in (read_end, write_end):
        os.close(fd)


def run_once(loop: Loop) -> None:
    """Let the loop take what is ready and due."""
    loop.call_later(0, loop.stop)
    loop.run()


def test_timers_are_called_when_they_are_due_in_the_order_of_their_times() -> None:
    clock = Clock()
    loop, called = Loop(clock), list[str]()
    for name, delay_s in (("late", 5.0), ("first", 1.0), ("second", 1.0), ("now", 0.0)):
        loop.call_later(delay_s, lambda name=name: called.append(name))  # type: ignore[misc]
    run_once(loop)
    assert called == ["now"]
    clock.now += 1.0
    run_once(loop)
    assert called == ["now", "first", "second"]
    clock.now += 3.999
    run_once(loop)
    assert called == ["now", "first", "second"]
    clock.now += 0.001
    run_once(loop)
    assert called == ["now", "first", "second", "late"]


def test_cancelled_timers_do_not_pile_up() -> None:
    """Each client of the worker agent's HTTP server leaves one of 290 s."""
    clock = Clock()
    loop, called = Loop(clock), list[int]()
    for number in range(50_000):
        timer = loop.call_later(290.0 - number % 7, lambda number=number: called.append(number))  # type: ignore[misc]
        if number % 100:
            timer.cancel()
    assert sum(isinstance(one, Timer) for one in gc.get_objects()) < 2000
    clock.now += 290.0
    run_once(loop)
    assert sorted(called) == list(range(0, 50_000, 100))


def test_a_cancelled_timer_is_not_called_and_does_not_keep_others_waiting() -> None:
    clock = Clock()
    loop, called = Loop(clock), list[str]()
    timer = loop.call_later(1.0, lambda: called.append("cancelled"))
    loop.call_later(1.0, lambda: called.append("kept"))
    timer.cancel()
    clock.now += 1.0
    run_once(loop)
    timer.cancel()
    assert called == ["kept"]


def test_a_timer_that_is_cancelled_by_another_of_the_same_moment() -> None:
    loop, called = Loop(Clock()), list[str]()
    later: list[Timer] = []

    def cancel() -> None:
        later[0].cancel()

    loop.call_later(0, cancel)
    later.append(loop.call_later(0, lambda: called.append("cancelled")))
    run_once(loop)
    assert called == []


def test_a_timer_that_sets_itself_again_starves_no_descriptor(pipe: tuple[int, int]) -> None:
    loop, turns = Loop(Clock()), list[int]()  # a clock that stands still: the worst case

    def again() -> None:
        turns.append(1)
        assert len(turns) < 5, "the descriptor was never looked at"
        loop.call_later(0, again)

    again()
    loop.add(pipe[1], WRITE, lambda _: loop.stop())
    loop.run()


def test_a_descriptor_is_called_while_it_is_ready_and_wanted(pipe: tuple[int, int]) -> None:
    loop, called = Loop(), list[int]()
    read_end, write_end = pipe
    loop.add(read_end, READ, called.append)
    run_once(loop)
    assert called == []
    os.write(write_end, b"x")
    run_once(loop)
    run_once(loop)
    assert called == [READ, READ]
    loop.modify(read_end, 0)
    run_once(loop)
    assert called == [READ, READ]
    loop.modify(read_end, READ)
    run_once(loop)
    assert called == [READ] * 3
    loop.remove(read_end)
    loop.remove(read_end)
    run_once(loop)
    assert called == [READ] * 3


def test_a_regular_file_is_refused_and_not_half_registered() -> None:
    loop = Loop()
    with open(__file__, "rb") as file:
        with pytest.raises(PermissionError):
            loop.add(file.fileno(), READ, lambda _: None)
        loop.remove(file.fileno())


def two_ready(loop: Loop, calls: list[str], act: Callable[[int], None]) -> list[int]:
    """Make two ready pipes; whichever the kernel names first does `act` to the other's reading end."""
    ends = [*os.pipe(), *os.pipe()]

    def watch(mine: int, other: int) -> None:
        def ready(_events: int) -> None:
            calls.append(f"pipe {mine}")
            act(other)

        loop.add(mine, READ, ready)

    watch(ends[0], ends[2])
    watch(ends[2], ends[0])
    for write_end in ends[1::2]:
        os.write(write_end, b"x")
    return ends


def test_a_descriptor_that_was_removed_a_moment_ago_is_not_called() -> None:
    loop, calls = Loop(), list[str]()
    ends = two_ready(loop, calls, loop.remove)
    run_once(loop)
    assert len(calls) == 1
    for fd in ends:
        os.close(fd)


def test_an_event_is_not_given_to_a_new_descriptor_with_an_old_ones_number() -> None:
    loop, calls = Loop(), list[str]()
    new: list[int] = []

    def replace(fd: int) -> None:
        loop.remove(fd)
        new.extend(os.pipe())
        os.dup2(new[0], fd)
        loop.add(fd, READ, lambda _: calls.append("the new one, which has nothing to read"))

    ends = two_ready(loop, calls, replace)
    run_once(loop)
    assert len(calls) == 1, calls
    for fd in (*ends, *new):
        os.close(fd)


@pytest.mark.parametrize("by", ["timer", "descriptor"])
def test_an_error_ends_the_loop_or_goes_to_the_boundary(by: str, pipe: tuple[int, int]) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a bug")

    def ask(loop: Loop) -> None:
        if by == "timer":
            loop.call_later(0, fail)
        else:
            loop.add(pipe[1], WRITE, fail)

    bare = Loop()
    ask(bare)
    with pytest.raises(KeyError):
        bare.run()
    guarded, seen = Loop(), list[tuple[object, Exception]]()

    def report(call: object, error: Exception) -> None:
        seen.append((call, error))
        guarded.stop()

    guarded.on_error = report
    ask(guarded)
    guarded.run()
    assert [(call, type(error)) for call, error in seen] == [(fail, KeyError)]


SIGNALLED = """
import os, sys
sys.path.insert(0, {root!r})
from agents.common.loop import Loop
loop = Loop()
seen = []
def take(number):
    seen.append(number)
    print(number, flush=True)
    if number == 15:
        loop.stop()
loop.on_signals((2, 10, 15), take)
print("ready", flush=True)
loop.run()
sys.exit(len(seen))
"""


def test_signals_become_calls_and_none_ends_the_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SIGNALLED.format(root=ROOT)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM):
            process.send_signal(number)
            assert process.stdout.readline() == f"{int(number)}\n"
        assert process.wait(DEADLINE_S) == 3


def test_many_signals_before_the_loop_runs_are_not_lost() -> None:
    """The kernel folds equal pending signals; different ones all arrive, however they came in a row."""
    script = SIGNALLED.replace('print("ready", flush=True)', "for _ in range(50): os.kill(os.getpid(), 10)").replace(
        "loop.run()", "os.kill(os.getpid(), 15); loop.run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script.format(root=ROOT)], capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert set(done.stdout.split()) == {b"10", b"15"}
    assert done.returncode >= 2
    assert done.stderr == b""


def test_a_timer_that_is_years_away_keeps_nothing_else_waiting() -> None:
    loop = Loop()
    for seconds in (2**31 / 1000, 2**32, 1e9):
        loop.call_later(seconds, lambda: pytest.fail("too early"))
    reading, writing = os.pipe()
    loop.add(reading, READ, lambda _events: loop.stop())
    os.write(writing, b"x")
    loop.run()  # epoll takes no longer wait than 2^31 ms
    loop.remove(reading)
    os.close(reading)
    os.close(writing)
