"""A launch whose stream is lost or hangs: what it takes for started, what it starts again, and how it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from scripted_exec import Bench, benches, pod

from rshagent.call import bootstrap
from rshagent.session.events import State
from rshagent.stream.status import Exited
from rshagent.stream.streams import STDERR

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield from benches(monkeypatch)


LOST = pytest.mark.parametrize("outcome", [None, Exited(0)], ids=["lost", "made-up-success"])


@LOST
def test_one_that_is_found_is_not_started_again(bench: Bench, outcome: Exited | None) -> None:
    start = bench.start()
    start.may_run = True  # and no answer yet: an old kubelet answers when the command has been started
    start.end(outcome)
    assert bench.session.facts.state is State.FINDING
    control = bench.ask()
    control.answer("alive")
    assert bench.session.facts.acknowledged_at == bench.now, "it counts as started"
    for _ in range(30):  # longer than a start may take
        bench.wait(5)
        control.answer("alive")
    control.answer("exit 7")
    assert bench.end == (7, "")
    assert bench.starts == 1


@LOST
def test_one_that_is_not_found_is_started_again(bench: Bench, outcome: Exited | None) -> None:
    bench.lose(outcome)
    bench.ask().answer("gone")
    bench.wait(1)
    assert bench.starts == 2
    assert b"kill -9" in bench.execs[-1].script, "what the first try may yet have started is ended first"


def test_one_that_has_ended_unheard_is_not_started_again(bench: Bench) -> None:
    bench.lose()
    bench.ask().answer("exit 4")
    assert bench.end == (4, "")
    assert bench.session.facts.acknowledged_at, "what it left is known to be there"


def test_one_whose_worker_goes_while_it_is_looked_for_is_started_in_the_next(bench: Bench) -> None:
    bench.engine.pods = {"worker-0": pod("1")}
    bench.lose()
    bench.engine.pods = {"worker-0": pod("2")}
    bench.engine.pod_changed("worker-0")
    bench.wait(5)
    assert (bench.ends, bench.starts) == ([], 2)


def test_one_that_was_seen_to_run_is_never_started_again(bench: Bench) -> None:
    bench.lose()
    control = bench.ask()
    control.answer("alive")
    control.answer("gone")
    code, reason = bench.end
    assert code == 255
    assert reason.startswith("the stream was lost, and how the command ended is unknown: it ended in the worker")
    bench.wait(10)
    assert bench.starts == 1


def test_one_that_was_seen_to_run_and_can_not_be_asked_any_more_is_left_alone(bench: Bench) -> None:
    bench.lose()
    control = bench.ask()
    control.answer("alive")
    control.end()
    bench.wait(bench.engine.limits["settle"] + 1)
    code, reason = bench.end
    assert code == 255
    assert "the worker could not be asked for 60 s" in reason
    assert bench.starts == 1
    assert not any(b"signal" in line for each in bench.execs for line in each.sent), "mpirun may know it"


def lose_the_api_server(bench: Bench, seconds: float) -> None:
    """Have no try reach it for so long."""
    end = bench.now + seconds
    while bench.now < end and not bench.ends:
        bench.execs[-1].is_asked = False
        bench.execs[-1].end()
        tries = len(bench.execs)
        while len(bench.execs) == tries and not bench.ends:
            bench.wait(0.2)


def test_one_that_runs_outlives_an_outage_of_the_api_server(bench: Bench) -> None:
    told: list[str] = []
    bench.engine.on_outage = lambda _mark, message: told.append(message)
    bench.run().end()
    lose_the_api_server(bench, 1800)
    assert told == ["the connection was lost; its exit is asked for until the API server answers, for at most 3600 s"]
    bench.wait(bench.engine.limits["settle"] - 10)  # it is back, but does not reach the worker yet
    control = bench.execs[-1]
    control.open()
    control.answer("alive")
    assert told[1:] == ["the API server can be reached again: the command runs"]
    control.answer("exit 3")
    assert bench.end == (3, "")


def test_a_worker_that_can_not_be_asked_after_an_outage_has_its_time_from_then_on(bench: Bench) -> None:
    bench.run().end()
    lose_the_api_server(bench, 120)
    back = bench.now
    while not bench.ends:
        bench.execs[-1].end()
        bench.wait(1)
    settle_s = bench.engine.limits["settle"]
    assert settle_s - 10 < bench.now - back < settle_s + 2, "from the last try that did not reach it"
    assert bench.end[0] == 255


def test_an_outage_is_not_waited_out_for_ever(bench: Bench) -> None:
    bench.run().end()
    lose_the_api_server(bench, 10000)
    code, reason = bench.end
    assert code == 255
    waited_s = float(reason.partition("the worker could not be asked for ")[2].split()[0])
    assert 3600 < waited_s < 3670, reason


def test_signals_that_came_before_it_was_found_are_passed_on(bench: Bench) -> None:
    bench.lose()
    control = bench.ask()
    bench.session.signal(10)
    assert len(bench.execs) == 2
    control.answer("alive")
    messenger = bench.execs[-1]
    messenger.open()
    assert messenger.sent == [b"signal USR1\n"]


def test_what_was_never_sent_is_not_looked_for_and_leaves_nothing_to_end(bench: Bench) -> None:
    bench.start().end()
    assert bench.session.facts.state is State.BACKOFF
    while not bench.ends:
        tries = bench.starts
        while bench.starts == tries:
            bench.wait(0.2)
        bench.execs[-1].end()
    assert bench.end[1].startswith("the connection was lost (")
    assert bench.starts == len(bench.execs), "no exec was made to ask or to end anything"


def test_a_text_that_was_never_sent_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for bench in benches(monkeypatch, text=b":" * (bootstrap.SHORT_TEXT + 1)):
        start = bench.start()
        start.may_run = True  # the bootstrap, which waits for its stdin
        start.end()
        assert bench.session.facts.state is State.BACKOFF


def test_one_whose_stdin_was_in_the_lost_stream_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    for bench in benches(monkeypatch, stdin=reader):
        bench.lose()
        assert bench.session.facts.state is State.BACKOFF
    os.close(writer)


def test_a_stream_that_is_found_lost_by_sending_to_it_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a line")
    for bench in benches(monkeypatch, stdin=reader):
        start = bench.run()
        start.is_broken = True
        bench.wait(0.2)
        assert start.sent == [b"a line"]
        bench.ask().answer("exit 3")
        assert bench.end == (3, "")
    os.close(writer)


def test_one_whose_worker_knows_its_end_is_given_time_for_its_last_output(bench: Bench) -> None:
    start = bench.hang()
    bench.ask().answer("exit 0")
    start.write(b"the last line")
    bench.wait(0.8)
    assert bench.ends == []
    bench.wait(0.2)
    assert bench.end == (0, ""), "its output came by the stream that hung"
    assert start.is_closed


def test_one_whose_output_goes_on_is_not_cut_off(bench: Bench) -> None:
    start = bench.hang()
    bench.ask().answer("exit 0")
    for _ in range(5):
        bench.wait(0.8)
        start.write(b"a line")
    assert bench.ends == []
    bench.wait(1)
    assert bench.end == (0, "")


def test_one_whose_reader_is_slow_is_not_cut_off(bench: Bench) -> None:
    start = bench.hang()
    start.write(b"x" * 300_000, STDERR)  # more than a pipe takes
    bench.ask().answer("exit 0")
    bench.wait(5)
    assert bench.ends == []
    read = 0
    while not bench.ends:
        read += len(os.read(bench.stderr.fileno(), 300_000)) if read < 300_000 else 0
        bench.wait(0.2)
    assert (read, bench.end) == (300_000, (0, ""))


def test_one_whose_reader_has_just_caught_up_is_given_time_for_what_the_stream_held_back(bench: Bench) -> None:
    start = bench.hang()
    start.write(b"x" * 300_000, STDERR)
    bench.ask().answer("exit 0")
    bench.wait(0.5)
    read = 0
    while read < 300_000:
        read += len(os.read(bench.stderr.fileno(), 300_000))
        bench.wait(0.01)
    bench.wait(0.6)
    assert bench.ends == []
    bench.wait(1)
    assert bench.end == (0, "")


@pytest.mark.parametrize("is_silent", [True, False])
def test_one_that_the_worker_does_not_know_ends_if_its_stream_still_hangs(bench: Bench, is_silent: bool) -> None:
    start = bench.run()
    start.stall()
    start.stall()
    assert len(bench.execs) == 2, "the worker is asked already"
    start.is_silent = is_silent
    bench.ask().answer("gone")
    assert bool(bench.ends) == is_silent
    assert bench.session.facts.code == 255
    start.end(Exited(4))
    assert bench.end[0] == (255 if is_silent else 4)


def test_one_whose_last_output_does_not_come_is_no_success(bench: Bench) -> None:
    start = bench.run()
    start.stall()
    bench.ask().answer("exit 0")
    bench.wait(1)
    assert bench.end[0] == 255, "the stream hangs, and has not brought what the command says last"
    assert "output with it" in bench.said


ENDS = {"unknown": (True, 255, "output with it"), "a launcher's daemon": (False, 0, "it ended with 0")}


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize(("has_output", "code", "said"), ENDS.values(), ids=ENDS)
def test_a_success_whose_output_was_lost_is_never_silent(
    bench: Bench, has_output: bool, code: int, said: str, writes: bool
) -> None:
    bench.session.facts.has_output = has_output
    start = bench.run()
    if writes:
        start.write(b"a line")
    start.end()
    assert bench.session.facts.state is State.RECOVERING
    bench.ask().answer("exit 0")
    assert bench.end[0] == code
    assert said in bench.said


def test_one_that_another_hub_started_is_asked_for_and_never_started(bench: Bench) -> None:
    bench.session.resume(42)
    bench.ask().answer("exit 5")
    assert (bench.end, bench.starts) == ((5, ""), 0)


@pytest.mark.parametrize(("code", "end"), [(0, 141), (7, 7)])
@pytest.mark.parametrize("path", ["/dev/full", ""], ids=["full disk", "reader that has gone"])
def test_output_that_can_not_be_written_is_no_success(
    monkeypatch: pytest.MonkeyPatch, path: str, code: int, end: int
) -> None:
    """That it can't is found with the last of the output, or behind the end of the command."""
    reading, writing = os.pipe()
    stdout = os.open(path or f"/proc/self/fd/{writing}", os.O_WRONLY)
    os.close(writing)
    for bench in benches(monkeypatch, stdout=stdout):
        start = bench.run()
        start.write(bytes(1 << 20))
        start.is_confirmed = True
        start.end(Exited(code))
        os.close(reading)
        bench.wait(1)
        assert bench.end[0] == end


def test_a_stream_that_breaks_while_its_last_output_is_waited_for_is_settled(bench: Bench) -> None:
    start = bench.run()
    start.write(b"a line")
    start.stall()
    bench.ask().answer("exit 0")
    start.end()
    assert bench.session.facts.state is State.RECOVERING
    bench.wait(1)
    assert bench.ends == [], "it was the stream that was to bring the rest"
    bench.ask().answer("exit 0")
    assert bench.end[0] == 255


def test_a_worker_that_is_never_ready_is_the_end_and_one_that_runs_is_asked_all_the_same(bench: Bench) -> None:
    bench.engine.pods = {"worker-0": pod("1")._replace(phase="Pending", ready=False)}
    bench.session.start(b"true")
    bench.wait(bench.engine.limits["worker"] - 1)
    assert bench.session.facts.state is State.WAITING
    bench.engine.pods = {"worker-0": pod("1")._replace(ready=False)}
    bench.wait(2)
    assert (bench.session.facts.state, bench.starts) == (State.STARTING, 1)


@pytest.mark.parametrize("flood", [b"x" * 5000, b"alive\n" * 1000, b"exit " + b"9" * 4200])
def test_a_worker_that_says_too_much_is_asked_again(bench: Bench, flood: bytes) -> None:
    start = bench.start()
    start.acknowledge()
    start.end()
    control = bench.ask()
    for at in range(0, len(flood), 1000):
        if not control.is_closed:
            control.write(flood[at : at + 1000])
    assert control.is_closed
    bench.wait(60 - 1)
    again = bench.ask()
    again.answer("exit 7")
    assert bench.end == (7, "")


@pytest.mark.parametrize(("said", "code"), [("255", 255), ("256", 255), ("512", 255), ("9" * 4000, 255)])
def test_a_kept_status_that_is_no_code_is_no_success(bench: Bench, said: str, code: int) -> None:
    start = bench.start()
    start.acknowledge()
    start.end()
    bench.ask().answer(f"exit {said}")
    assert bench.end == (code, "")


def test_a_signal_waits_for_a_command_that_is_just_being_started(bench: Bench) -> None:
    messenger = bench.message()
    for tries in (2, 3):
        messenger.answer("left 1 0")
        bench.wait(1.0)
        assert messenger.sent == [b"signal USR1\n"] * tries
    messenger.answer("left 2 1")
    assert messenger.is_closed
    bench.wait(1.0)
    assert messenger.sent.count(b"signal USR1\n") == 3


def test_a_command_that_hides_its_mark_gets_no_signal_and_costs_no_more_requests(bench: Bench) -> None:
    messenger = bench.message()
    for _ in range(20):
        if not messenger.is_closed:
            messenger.answer("left 1 0")
            bench.wait(1.0)
    assert messenger.is_closed
    assert messenger.sent.count(b"signal USR1\n") == 6


def test_signals_without_end_are_one_request_at_a_time(bench: Bench) -> None:
    bench.start().acknowledge()
    for _ in range(1000):
        bench.session.signal(10)
    (messenger,) = bench.execs[1:]
    messenger.open()
    for _ in range(1000):
        bench.session.signal(10)
    assert messenger.sent == [b"signal USR1\n"]
    messenger.answer("left 3 3")
    assert messenger.sent == [b"signal USR1\n"] * 2, "those that came later are one more"
    messenger.answer("left 3 3")
    assert messenger.is_closed
    bench.session.signal(10)
    assert len(bench.execs) == 3
