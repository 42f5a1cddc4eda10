"""Which sessions count as cut: their daemon or its worker ended by something else than us, or nobody knows how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted_exec import GRACE_S, Bench, benches, pod

from agents.common import pods
from rshagent.session.reaper import KILL_AFTER_S
from rshagent.stream.status import Exited

if TYPE_CHECKING:
    from collections.abc import Iterator

USR1, USR2, KILL, TERM, HUP = 10, 12, 9, 15, 1
KILLED = "its daemon was killed by signal"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield from benches(monkeypatch)


@pytest.mark.parametrize("code", [0, 1, 127, 128, 193, 255, 128 + KILL, 128 + TERM, 128 + 64])
def test_a_daemon_that_was_killed(bench: Bench, code: int) -> None:
    start = bench.run()
    start.is_confirmed = True
    start.end(Exited(code))
    is_killed = 128 < code <= 192
    assert bench.session.facts.cut == (f"{KILLED} {code - 128}" if is_killed else "")
    assert bench.end == (code, "")


def test_a_command_that_did_not_start_was_no_daemon(bench: Bench) -> None:
    bench.start().end(Exited(128 + KILL))
    assert bench.session.facts.cut == ""


@pytest.mark.parametrize("number", [HUP, TERM, None], ids=["HUP", "TERM", "its client died"])
@pytest.mark.parametrize("has_output", [False, True])
@pytest.mark.parametrize("code", [0, 255, 128 + KILL, 128 + TERM])
def test_mpirun_may_end_its_agents_before_they_hear_of_the_loss(
    bench: Bench, number: int | None, code: int, has_output: bool
) -> None:
    """Open MPI's kills them; in a good run they are told by its end."""
    is_cut = code in (128 + KILL, 128 + TERM) or (code == 255 and number is None and not has_output)
    start = bench.run()
    bench.session.facts.has_output = has_output
    bench.session.end(number)
    bench.wait(GRACE_S / 2)
    start.is_confirmed = True
    start.end(Exited(code))
    assert bool(bench.session.facts.cut) is is_cut
    assert bench.ends


@pytest.mark.parametrize(
    ("code", "after_s", "is_cut"),
    [(128 + TERM, 0.0, False), (255, 0.0, False), (128 + KILL, 0.0, True), (128 + KILL, KILL_AFTER_S, False)],
)
def test_what_we_end_is_not_cut(bench: Bench, code: int, after_s: float, is_cut: bool) -> None:
    start = bench.run()
    bench.session.end(None)
    bench.wait(GRACE_S)
    control = bench.reap()
    bench.wait(after_s)
    control.answer("left 1 1")
    bench.wait(GRACE_S)
    start.end(Exited(code))
    control.answer("left 0 0")
    assert bool(bench.session.facts.cut) is is_cut


@pytest.mark.parametrize(("number", "is_cut"), [(TERM, False), (KILL, True)])
def test_what_the_hubs_own_end_sends_is_ours(bench: Bench, number: int, is_cut: bool) -> None:
    start = bench.run()
    bench.session.facts.ours = (TERM,)
    bench.session.end(TERM, 25.0)
    start.end(Exited(128 + number))
    assert bool(bench.session.facts.cut) is is_cut


@pytest.mark.parametrize(("number", "is_cut"), [(USR1, False), (USR2, True)])
def test_a_signal_that_the_agent_was_sent_is_ours(bench: Bench, number: int, is_cut: bool) -> None:
    start = bench.run()
    bench.session.signal(USR1)
    start.end(Exited(128 + number))
    assert bool(bench.session.facts.cut) is is_cut


@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        ("exit 0", ""),
        ("exit 137", f"{KILLED} 9"),
        ("gone", "it ended in the worker, and its exit status was not kept"),
    ],
)
def test_a_session_whose_stream_was_lost(bench: Bench, answer: str, cut: str) -> None:
    bench.run().end()
    bench.ask().answer(answer)
    assert bench.session.facts.cut == cut
    assert bench.ends


@pytest.mark.parametrize("pid", [7, None])
def test_a_session_of_the_hub_before(bench: Bench, pid: int | None) -> None:
    """Without its process id it may not have started."""
    bench.session.resume(pid)
    bench.ask().answer("gone")
    assert bool(bench.session.facts.cut) is (pid is not None)


def terminated() -> pods.Pod:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    raw = {"metadata": {"name": "worker-0", "uid": "a"}, "status": {"phase": "Running", "containerStatuses": [ended]}}
    return pods.parse(raw)


@pytest.mark.parametrize(
    ("now", "cut"),
    [
        ({}, "the pod was deleted"),
        ({"worker-0": pod("b")}, "the pod was replaced by a new pod of the same name"),
        ({"worker-0": terminated()}, "its container main exited with 137 (OOMKilled)"),
        ({"worker-0": pod("a")}, ""),
    ],
)
@pytest.mark.parametrize("is_told", [False, True], ids=["runs", "its client died"])
def test_a_worker_that_ended(bench: Bench, now: dict[str, pods.Pod], cut: str, is_told: bool) -> None:
    running = {"name": "main", "state": {"running": {}}}
    before = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running]}
    bench.engine.pods = {"worker-0": pods.parse({"metadata": {"name": "worker-0", "uid": "a"}, "status": before})}
    bench.run()
    if is_told:
        bench.session.end(None, 5.0)
    bench.engine.pods = now
    bench.engine.pod_changed("worker-0")
    bench.wait(GRACE_S + 0.2)
    assert bench.session.facts.cut == cut
    assert bool(bench.ends) is bool(cut)
